package image

import (
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// New returns an OCI image for a platform with layers, the lowest first.
func New(
	platform v1.Platform, config v1.Config, created time.Time, layers ...v1.Layer,
) (v1.Image, error) {
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS, Variant: platform.Variant,
		Created: v1.Time{Time: created}, Config: config,
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	var added []mutate.Addendum
	for _, layer := range layers {
		added = append(added, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: created}},
		})
	}
	return mutate.Append(img, added...)
}

// Index returns an image index of images for several platforms.
func Index(images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		config, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: config.Platform()},
		})
	}
	return index, nil
}

// Layout creates an empty OCI layout in a folder.
func Layout(folder string) (layout.Path, error) {
	return layout.Write(folder, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
}
