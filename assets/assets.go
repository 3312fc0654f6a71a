// Package assets contains the manifests that install the operators, for tests and tools. No
// operator links it: each driver plugin embeds its own bundles.
package assets

import (
	"embed"
	"io/fs"
)

//go:embed drivers/*/generated/*/operator
var installations embed.FS

// Installations returns the folders drivers/<driver>/generated/<flavour>/operator.
func Installations() fs.FS { return installations }
