package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/openstack-csi/csi-operator/hack/images/image"
	"github.com/openstack-csi/csi-operator/hack/images/release"
)

type builder struct {
	root     string // of the repository
	folder   string // for the programs and everything else that images are made of
	progress io.Writer
}

// Build builds the images that List lists for the platform of this machine. It skips an image if
// its parts are those of the last build, and writes a line for each step that takes longer and for
// each image in a manifest that has no recipe.
func Build(ctx context.Context, root string, progress io.Writer) error {
	all, missing, err := recipesIn(root)
	if err != nil {
		return err
	}
	for _, image := range missing {
		fmt.Fprintf(progress, "Nothing builds the image %s, so its pods cannot start: add it to "+
			"test/node/images/recipes.go\n", image)
	}
	b := builder{root, filepath.Join(root, filepath.Dir(Folder), "parts"), progress}
	if err := b.buildOperators(ctx); err != nil {
		return err
	}
	for i, r := range all {
		if err := b.build(ctx, r, fmt.Sprintf("%d of %d", i+1, len(all))); err != nil {
			return fmt.Errorf("building the image %s: %w", r.image, err)
		}
	}
	return nil
}

// build builds one image, if it is missing or outdated.
func (b builder) build(ctx context.Context, r recipe, position string) error {
	parts, err := b.parts(ctx, r)
	if err != nil {
		return err
	}
	return b.write(r, parts, position)
}

// write writes the tar file of an image, unless it exists and was made of the same parts.
func (b builder) write(r recipe, parts []string, position string) error {
	file := filepath.Join(b.root, Folder, r.name+".tar")
	current, key, err := isCurrent(file, r, parts)
	if err != nil || current {
		return err
	}
	fmt.Fprintf(b.progress, "Building the image %s (%s)\n", r.image, position)
	img, err := b.image(r, parts)
	if err != nil {
		return err
	}
	if err := image.WriteTar(file, r.image, img); err != nil {
		return err
	}
	return os.WriteFile(keyOf(file), []byte(key), 0o644)
}

// parts returns the files on this machine that an image is made of, and builds them if necessary:
// the tar file of its base, if it has one, and then its program. For an operator it returns the
// index of its OCI layout.
func (b builder) parts(ctx context.Context, r recipe) ([]string, error) {
	var parts []string
	if r.base != scratch {
		part, err := b.debian(ctx, r.base)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	switch {
	case r.module != "":
		program, err := b.compile(ctx, filepath.Join(b.root, "test/node/images/programs"), r.module)
		return append(parts, program), err
	case r.standin != "":
		program, err := b.compile(ctx, b.root, r.standin)
		return append(parts, program), err
	case r.base == scratch:
		return []string{filepath.Join(b.layout(r), "index.json")}, nil
	}
	return parts, nil
}

func (b builder) image(r recipe, parts []string) (v1.Image, error) {
	if r.path == "" && r.base == scratch {
		return image.OfLayout(b.layout(r))
	}
	var layers []v1.Layer
	config := v1.Config{
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}
	if r.base != scratch {
		layer, err := image.TarLayer(parts[0])
		if err != nil {
			return nil, err
		}
		layers, config.Cmd = append(layers, layer), []string{"/bin/sh"}
	}
	if r.path != "" {
		files := []image.File{{Path: r.path, Mode: 0o755, Source: parts[len(parts)-1]}}
		layer, err := image.Layer(files, time.Unix(0, 0))
		if err != nil {
			return nil, err
		}
		layers, config.Cmd = append(layers, layer), nil
		if r.command {
			config.Cmd = []string{r.path}
		} else {
			config.Entrypoint = []string{r.path}
		}
	}
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	return image.New(platform, config, time.Unix(0, 0), layers...)
}

func (b builder) buildOperators(ctx context.Context) error {
	return release.Build(ctx, release.Options{
		Root: b.root, Output: b.folder, Platforms: []string{"linux/" + runtime.GOARCH},
	}, b.progress)
}

func (b builder) layout(r recipe) string {
	return filepath.Join(b.folder, r.name)
}

// compile builds a program in a module. Go compiles only what changed.
func (b builder) compile(ctx context.Context, module, program string) (string, error) {
	file := filepath.Join(b.folder, "programs", path.Base(program))
	if _, err := os.Stat(file); err != nil {
		fmt.Fprintf(b.progress, "Building %s (some minutes the first time)\n", path.Base(program))
	}
	return file, b.run(ctx, module, "go", "build", "-ldflags=-s -w", "-o="+file, program)
}

// run runs a program with the flags of the Makefile for Go.
func (b builder) run(ctx context.Context, folder, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = folder
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOWORK=off",
		"GOFLAGS=-mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// keyOf returns the file that identifies the content of another file.
func keyOf(file string) string {
	return file + ".key"
}

// isCurrent returns whether the tar file of an image exists and was made of the recipe and of these
// parts. It also returns the key that identifies them.
func isCurrent(file string, r recipe, parts []string) (current bool, key string, err error) {
	digest := sha256.New()
	fmt.Fprintf(digest, "%+v\n", r)
	for _, part := range parts {
		if err := copyTo(digest, part); err != nil {
			return false, "", err
		}
	}
	key = hex.EncodeToString(digest.Sum(nil))
	if _, err := os.Stat(file); err != nil {
		return false, key, ignoreMissing(err)
	}
	last, err := os.ReadFile(keyOf(file))
	return string(last) == key, key, ignoreMissing(err)
}

func copyTo(w io.Writer, file string) error {
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(w, content)
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
