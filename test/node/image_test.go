//go:build integration

package node

import (
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/openstack-csi/csi-operator/hack/images/image"
)

// writeImage writes an image with the program testpod.
func writeImage(path string) error {
	layer, err := image.Layer([]image.File{{
		Path: podProgram, Mode: 0o755, Source: filepath.Join(os.Getenv("BIN_DIR"), "testpod"),
	}}, time.Unix(0, 0))
	if err != nil {
		return err
	}
	img, err := image.New(v1.Platform{OS: "linux", Architecture: "amd64"},
		v1.Config{Entrypoint: []string{podProgram}, Cmd: []string{"pause"}}, time.Unix(0, 0), layer)
	if err != nil {
		return err
	}
	return image.WriteTar(path, podImage, img)
}
