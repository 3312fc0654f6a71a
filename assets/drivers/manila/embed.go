// Package manila embeds the generated assets of the Manila CSI driver. Only the driver plugin with
// the same name calls it; `make update` writes its content.
package manila

import (
	"embed"
	"io/fs"
)

//go:embed generated/*/*.yaml generated/*/csi-addons/*.yaml
var generated embed.FS

// Assets returns the folder that contains generated/, with one bundle per flavour.
func Assets() fs.FS {
	return generated
}
