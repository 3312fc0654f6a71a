package image

import (
	"os"
	"path/filepath"

	registry "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// OfLayout returns the image for the only platform in an OCI layout.
func OfLayout(folder string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if index, err = index.ImageIndex(manifest.Manifests[0].Digest); err != nil {
		return nil, err
	}
	if manifest, err = index.IndexManifest(); err != nil {
		return nil, err
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// WriteTar writes an image to a tar file. The file is complete or does not change.
func WriteTar(file, image string, img v1.Image) error {
	tag, err := registry.NewTag(image)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	unfinished := file + ".new"
	if err := tarball.WriteToFile(unfinished, tag, img); err != nil {
		return err
	}
	return os.Rename(unfinished, file)
}
