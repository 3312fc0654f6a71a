package scaffold

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/generator"
)

const repository = "../../.."

func copyOfAssets(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	assets := os.DirFS(filepath.Join(repository, "assets"))
	assert.NilError(t, os.CopyFS(filepath.Join(root, "assets"), assets))
	return root
}

func newDriver(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaint strings.Builder
	code = Main(args, &out, &complaint)
	return code, out.String(), complaint.String()
}

// The generator compares all drivers, so the names of a new driver must be unique. The tests of
// test/devcluster run a new driver.
func TestGeneratorAcceptsNewDrivers(t *testing.T) {
	t.Parallel()
	root := copyOfAssets(t)
	names := []string{"scaffoldtest", "z9scaffoldtest"}
	for _, name := range names {
		code, stdout, stderr := newDriver(t, "--root="+root, name)
		assert.Assert(t, code == 0, "exit code %d: %s", code, stderr)
		for _, file := range []string{
			"assets/drivers/%s/driver.yaml", "pkg/drivers/%s/configsync.go", "cmd/%s-operator/main.go",
			"Dockerfile.%s", "test/devcluster/fixtures/operators/%s.yaml",
			"assets/drivers/%s/operator/operand_role.yaml",
		} {
			if file = fmt.Sprintf(file, name); !slices.Contains(strings.Fields(stdout), file) {
				t.Errorf("%s does not exist", file)
			}
		}
		// hack/choices writes it before the generator runs.
		kind := strings.ToUpper(name[:1]) + name[1:] + "Driver"
		definition := "spec:\n  group: csi.openstack.org\n  names: {kind: " + kind + ", plural: " +
			strings.ToLower(kind) + "s}\n  versions:\n  - name: v1alpha1\n" +
			"    schema: {openAPIV3Schema: {properties: {spec: {}}}}\n"
		assert.NilError(t, os.WriteFile(filepath.Join(root, "assets/crds/generated",
			strings.ToLower(kind)+"s.yaml"), []byte(definition), 0o600))
	}
	assert.NilError(t, generator.Update(filepath.Join(root, "assets")))
	for _, name := range names {
		installed := "assets/drivers/" + name + "/generated/standalone/operator/kustomization.yaml"
		if _, err := os.Stat(filepath.Join(root, installed)); err != nil {
			t.Errorf("nothing installs the operator: %v", err)
		}
	}
}

func TestInvalidArgumentsAreRejected(t *testing.T) {
	t.Parallel()
	root := copyOfAssets(t)
	in := "--root=" + root
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no name":             {args: []string{in}, code: 2, want: "give one name"},
		"path":                {args: []string{in, "../x"}, code: 1, want: `NAME "../x" must consist`},
		"package of the code": {args: []string{in, "operator"}, code: 1, want: "choose another"},
		"existing driver":     {args: []string{in, "cinder"}, code: 1, want: "already exists"},
		"another folder":      {args: []string{"--root=/", "demo"}, code: 1, want: "is not the root"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := newDriver(t, test.args...)
			assert.Check(t, code == test.code && strings.Contains(stderr, test.want),
				"exit code %d, %q; want %d, %q", code, stderr, test.code, test.want)
		})
	}
	if _, err := os.Stat(filepath.Join(root, "cmd")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}
