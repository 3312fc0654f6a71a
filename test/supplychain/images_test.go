//go:build integration

package supplychain

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/hack/images/image"
)

// maxProgram is the largest size of an image for each of its programs, uncompressed, in bytes.
const maxProgram = 60 * 1000 * 1000

func TestImagesOfOperatorsAreReproducibleAndSmall(t *testing.T) {
	t.Parallel()
	first, second := newPlace(t), newPlace(t)
	second.changeFiles(t)
	built, again := buildImages(t, first), buildImages(t, second)
	for file, d := range readDockerfiles(t) {
		name := d.Labels["name"]
		img := readImage(t, filepath.Join(built, name))
		if a, b := digestOf(t, img), digestOf(t, readImage(t, filepath.Join(again, name))); a != b {
			t.Errorf("%s: the digest is %s in one folder and %s in another", name, a, b)
		}
		if size := sizeOf(t, img); size > int64(len(d.Programs))*maxProgram {
			t.Errorf("%s has %d bytes; at most %d are allowed for each program", name, size, maxProgram)
		}
		config, err := img.ConfigFile()
		assert.NilError(t, err)
		labels := map[string]string{}
		for label := range d.Labels {
			labels[label] = config.Config.Labels[label]
		}
		got := []any{config.Config.User, config.Config.Entrypoint, labels}
		assert.Check(t, is.DeepEqual([]any{d.User, d.Entrypoint, d.Labels}, got),
			"user, entrypoint and labels (-%s +image)", file)
	}
}

// buildImages builds the images of all operators from the sources in a place, and returns the
// folder with the layouts.
func buildImages(t *testing.T, p place) string {
	t.Helper()
	files := append(slices.Collect(maps.Keys(readDockerfiles(t))), "LICENSE")
	for _, file := range files {
		content := []byte(readFile(t, file))
		assert.NilError(t, os.WriteFile(filepath.Join(p.dir, file), content, 0o600))
	}
	output := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./hack/images", "--root="+p.dir,
		"--output="+output, "--platforms=linux/amd64")
	cmd.Dir = repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return output
}

func readImage(t *testing.T, folder string) v1.Image {
	t.Helper()
	img, err := image.OfLayout(folder)
	assert.NilError(t, err)
	return img
}

func digestOf(t *testing.T, img v1.Image) string {
	t.Helper()
	digest, err := img.Digest()
	assert.NilError(t, err)
	return digest.String()
}

func sizeOf(t *testing.T, img v1.Image) int64 {
	t.Helper()
	layers, err := img.Layers()
	assert.NilError(t, err)
	var size int64
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		assert.NilError(t, err)
		written, err := io.Copy(io.Discard, content)
		assert.NilError(t, err)
		assert.NilError(t, content.Close())
		size += written
	}
	return size
}
