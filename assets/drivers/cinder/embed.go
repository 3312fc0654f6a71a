// Package cinder embeds the generated assets of the Cinder CSI driver. Its only caller is the driver's plugin of the same name; what
// the folders hold is written by `make update`, never by hand.
package cinder

import (
	"embed"
	"io/fs"
)

//go:embed all:generated
var generated embed.FS

// Assets returns the folder which holds generated/, with one bundle for each flavour.
func Assets() fs.FS {
	return generated
}
