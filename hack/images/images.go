package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/spf13/pflag"

	"github.com/openstack-csi/csi-operator/hack/images/dockerfile"
	"github.com/openstack-csi/csi-operator/hack/images/image"
)

// run builds the image of each Dockerfile, and pushes them if the arguments name a registry. It
// prints the path and the digest of each image, and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(ctx, args, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = buildAll(ctx, o, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "images: %v\n", err)
		return 1
	}
	return 0
}

func buildAll(ctx context.Context, o options, stdout io.Writer) error {
	files, err := filepath.Glob(filepath.Join(o.root, "Dockerfile.*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s contains no Dockerfile.*: name the root of the sources with --root", o.root)
	}
	platforms, err := parsePlatforms(o.platforms)
	if err != nil {
		return err
	}
	for _, file := range files {
		d, err := dockerfile.Read(file)
		if err != nil {
			return err
		}
		r := release{options: o, Dockerfile: d, stdout: stdout}
		if err := r.build(ctx, platforms); err != nil {
			return fmt.Errorf("building the image of %s: %w", file, err)
		}
	}
	return nil
}

// release builds the image of one Dockerfile.
type release struct {
	options
	dockerfile.Dockerfile
	stdout io.Writer
}

func (r release) build(ctx context.Context, platforms []v1.Platform) error {
	programs, err := os.MkdirTemp("", "csi-operator-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	if err := os.MkdirAll(r.output, 0o755); err != nil {
		return err
	}
	var images []v1.Image
	var bills []attachment
	for _, platform := range platforms {
		fmt.Fprintf(r.stdout, "Building %s for %s\n", r.name(), platform)
		program := filepath.Join(programs, platform.Architecture)
		if err := r.compile(ctx, platform, program); err != nil {
			return err
		}
		img, err := r.image(platform, program)
		if err != nil {
			return err
		}
		bill, err := r.bill(platform, program, img)
		if err != nil {
			return err
		}
		images, bills = append(images, img), append(bills, bill)
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
	folder := filepath.Join(r.output, r.name())
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := image.Layout(folder)
	if err != nil {
		return err
	}
	// Tools that copy a layout find the image by this name.
	name := map[string]string{"org.opencontainers.image.ref.name": r.version}
	if err := path.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(r.stdout, "%s: %s\n", folder, digest)
	return nil
}
