// Package golden_test shows each feature of the asset generator in an example. testdata/common is
// an assets folder without drivers; each other folder is a case with the files that it adds
// (assets/) and the expected output (want/). Update the output with `make test-unit
// PACKAGES=./test/golden TESTFLAGS=-update`, and read the difference.
package golden_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/generator"
	"github.com/openstack-csi/csi-operator/test/golden"
)

func TestGeneratorOutputMatchesGoldenFiles(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("testdata/*/assets")
	assert.Assert(t, err == nil && len(cases) != 0, "no cases: %v", err)
	for _, added := range cases {
		dir := filepath.Dir(added)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			got := generate(t, added)
			want := filepath.Join(dir, "want")
			if golden.Update() {
				write(t, want, got)
			}
			assert.Check(t, is.DeepEqual(read(t, want), got), "not as in %s", want)
		})
	}
}

// generate runs the generator on the common folder with a case's files laid over it, and returns
// the files it adds.
func generate(t *testing.T, added string) map[string]string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "assets")
	input := read(t, "testdata/common")
	maps.Copy(input, read(t, added))
	write(t, root, input)
	assert.NilError(t, generator.Update(root))
	generated := read(t, root)
	for file, text := range input {
		assert.Check(t, generated[file] == text, "the generator changed its input %s", file)
		delete(generated, file)
	}
	return generated
}

// read returns the files below root, by their paths relative to it. A root that does not exist
// contains none.
func read(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		all[name] = string(text)
		return err
	})
	assert.Assert(t, err == nil || errors.Is(err, fs.ErrNotExist), err)
	return all
}

// write replaces the content of root by the files.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	assert.NilError(t, os.RemoveAll(root))
	for name, text := range files {
		file := filepath.Join(root, name)
		assert.NilError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(text), 0o644)))
	}
}
