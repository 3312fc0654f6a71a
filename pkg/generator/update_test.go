package generator_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/generator"
)

const checkedIn = "../../assets"

// files reads every file of a tree.
func files(t *testing.T, fsys fs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(fsys, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(fsys, file)
		all[file] = string(text)
		return err
	})
	assert.NilError(t, err)
	return all
}

// writeTree puts a tree into a new folder.
func writeTree(t *testing.T, fsys fs.FS) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "assets")
	assert.NilError(t, os.CopyFS(root, fsys))
	return root
}

func TestCheckedInAssetsAreUpToDate(t *testing.T) {
	t.Parallel()
	root := writeTree(t, os.DirFS(checkedIn))
	want := files(t, os.DirFS(root))
	for range 2 { // existing output has no effect
		assert.NilError(t, generator.Update(root))
		assert.Assert(t, is.DeepEqual(want, files(t, os.DirFS(root))), "run `make update`")
	}
}

func TestUpdateCreatesAllFilesOnce(t *testing.T) {
	t.Parallel()
	root := writeTree(t, validTree(t))
	assert.NilError(t, generator.Update(root))
	first := files(t, os.DirFS(root))
	for _, file := range []string{
		"drivers/one/generated/hypershift/controller.yaml", "drivers/two/generated/standalone/index.yaml",
	} {
		assert.Check(t, first[file] != "", "%s does not exist", file)
	}
	assert.NilError(t, generator.Update(root))
	assert.Check(t, is.DeepEqual(first, files(t, os.DirFS(root))), "a second run changes something")
}

func TestUpdateRemovesStaleFiles(t *testing.T) {
	t.Parallel()
	root := writeTree(t, validTree(t))
	assert.NilError(t, generator.Update(root))
	want := files(t, os.DirFS(root))
	for _, stale := range []string{
		"drivers/one/generated/standalone/old.yaml", "drivers/two/generated/hypershift/node.yaml",
		"drivers/two/generated/index.yaml", "drivers/gone/generated/standalone/node.yaml",
	} {
		file := filepath.Join(root, filepath.FromSlash(stale))
		assert.NilError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, nil, 0o644)))
	}
	assert.NilError(t, generator.Update(root))
	assert.Check(t, is.DeepEqual(want, files(t, os.DirFS(root))))
}

func TestUpdateWritesNothingOnError(t *testing.T) {
	t.Parallel()
	tree := validTree(t)
	edit{two, "10302", "10301"}.apply(t, tree)
	root := writeTree(t, tree)
	want := files(t, os.DirFS(root))
	assert.Assert(t, generator.Update(root) != nil, "no error")
	assert.Check(t, is.DeepEqual(want, files(t, os.DirFS(root))))
}

func TestCommandReturnsExitCodeAndMessage(t *testing.T) {
	t.Parallel()
	broken := validTree(t)
	edit{two, "prefix: one", "prefx: one"}.apply(t, broken)
	const dashboard = "monitoring/dashboard.yaml"
	mistitled := validTree(t)
	edit{file: dashboard, new: "titel: x"}.apply(t, mistitled)
	tests := map[string]struct {
		tree fstest.MapFS
		args []string
		code int
		want string
	}{
		"fine": {tree: validTree(t)},
		"mistake": {
			tree: broken, code: 1, want: two + `:2: "driver.yaml": unknown field "prefx"`,
		},
		"mistake in the dashboard": {
			tree: mistitled, code: 1, want: dashboard + `:1: "dashboard.yaml": unknown field "titel"`,
		},
		"unknown flag":    {args: []string{"--asets=x"}, code: 2, want: "asets"},
		"stray argument":  {args: []string{"x"}, code: 2, want: `unexpected arguments ["x"]`},
		"folder is empty": {tree: fstest.MapFS{}, code: 1, want: "base/layer.yaml"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := test.args
			if test.tree != nil {
				args = []string{"--assets", writeTree(t, test.tree)}
			}
			var stderr strings.Builder
			assert.Check(t, is.Equal(generator.Main(args, &stderr), test.code))
			assert.Check(t, is.Contains(stderr.String(), test.want))
		})
	}
}

func TestKustomizationOfCSIAddonsMustFitItsObjects(t *testing.T) {
	t.Parallel()
	const folder = "csi-addons/install/kubernetes/"
	for name, test := range map[string]struct{ kustomization, want string }{
		"patch without target": {
			"patches:\n- target: {kind: Deployment, name: other}\n  patch: '[]'\n",
			folder + "kustomization.yaml:2: there is no Deployment other",
		},
		"unknown field": {
			"images: []\n", folder + `kustomization.yaml:1: "kustomization.yaml": unknown field "images"`,
		},
		"missing file": {"resources: [role.yaml]\n", folder + "role.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := validTree(t)
			tree["csi-addons/clusterserviceversion.yaml"] = &fstest.MapFile{Data: []byte(
				"apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n")}
			tree[folder+"kustomization.yaml"] = &fstest.MapFile{Data: []byte(test.kustomization)}
			err := generator.Update(writeTree(t, tree))
			assert.Check(t, is.ErrorContains(err, test.want))
		})
	}
}
