// Package nfs embeds the generated assets of the NFS CSI node plugin. Only the driver plugin with
// the same name calls it; `make update` writes its content.
package nfs

import (
	"embed"
	"io/fs"
)

//go:embed generated/*/*.yaml
var generated embed.FS

// Assets returns the folder that contains generated/, with one bundle per flavour.
func Assets() fs.FS {
	return generated
}
