// Package assets contains the manifests that install the operators, for tests and tools. No
// operator links it: each driver plugin embeds its own bundles.
package assets

import (
	"embed"
	"io/fs"
)

//go:embed drivers/*/generated/*/operator drivers/*/generated/standalone/kubernetes
var installations embed.FS

// Installations returns the folders drivers/<driver>/generated/<flavour>/operator, and
// drivers/<driver>/generated/standalone/kubernetes, which needs the first.
func Installations() fs.FS { return installations }
