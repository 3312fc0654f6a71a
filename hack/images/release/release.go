// Package release builds the images of the operators without a container engine. It reads from the
// Dockerfiles how to build and run the programs. Its callers are hack/images and test/node/images.
package release

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/openstack-csi/csi-operator/hack/images/dockerfile"
	"github.com/openstack-csi/csi-operator/hack/images/image"
)

// Build builds the image of each Dockerfile, writes its OCI layout and an SBOM for each platform,
// and pushes the image if the options name a registry. It also builds the plugin of kubectl, which
// is not pushed. With Options.Registry it also writes the other files of a release. It writes a
// line for each step.
func Build(ctx context.Context, o Options, progress io.Writer) error {
	files, err := filepath.Glob(filepath.Join(o.Root, "Dockerfile.*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s contains no Dockerfile.*: name the root of the sources", o.Root)
	}
	platforms, err := parsePlatforms(o.Platforms)
	if err == nil && o.Registry != "" {
		err = o.checkRelease()
	}
	if err != nil {
		return err
	}
	sources, err := o.readCommit(ctx)
	if err != nil {
		return err
	}
	for _, file := range files {
		d, err := dockerfile.Read(file)
		if err != nil {
			return err
		}
		r := release{o, d, sources, progress}
		if err := r.build(ctx, platforms); err != nil {
			return fmt.Errorf("building the image of %s: %w", file, err)
		}
	}
	if o.Registry == "" {
		return o.plugin(ctx, sources, platforms, progress)
	}
	if err := o.plugin(ctx, sources, pluginPlatforms(), progress); err != nil {
		return err
	}
	return o.files(ctx)
}

// release builds the image of one Dockerfile.
type release struct {
	Options
	dockerfile.Dockerfile
	commit   commit
	progress io.Writer
}

func (r release) build(ctx context.Context, platforms []v1.Platform) error {
	programs, err := os.MkdirTemp("", "csi-operator-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	if err := os.MkdirAll(r.Output, 0o755); err != nil {
		return err
	}
	var images []v1.Image
	var bills []attachment
	for _, platform := range platforms {
		fmt.Fprintf(r.progress, "Building %s for %s\n", r.name(), platform)
		folder := filepath.Join(programs, platform.OS+"-"+platform.Architecture)
		if err := r.compile(ctx, platform, folder); err != nil {
			return err
		}
		img, err := r.image(platform, folder)
		if err != nil {
			return err
		}
		attached, err := r.bills(platform, folder, img)
		if err != nil {
			return err
		}
		images, bills = append(images, img), append(bills, attached...)
	}
	index, err := image.Index(images)
	if err != nil {
		return err
	}
	if err := r.write(index); err != nil {
		return err
	}
	return r.pushAll(ctx, index, bills)
}

// name returns the name of the image.
func (r release) name() string {
	return r.Labels["name"]
}

// write replaces the OCI layout of the image.
func (r release) write(index v1.ImageIndex) error {
	folder := filepath.Join(r.Output, r.name())
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := image.Layout(folder)
	if err != nil {
		return err
	}
	// Tools that copy a layout find the image by this name.
	name := map[string]string{"org.opencontainers.image.ref.name": r.commit.version}
	if err := path.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(r.progress, "%s: %s\n", folder, digest)
	return nil
}
