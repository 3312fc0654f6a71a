package patch_test

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/patch"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  template:
    spec:
      tolerations: [{key: a}]
      containers:
      - {name: one, image: old, args: [-a]}
      - {name: two, image: old}
      volumes:
      - {name: v, emptyDir: {}}
`

// beforeContainers is the text of the patched Deployment before its first container.
const beforeContainers = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: d
spec:
  template:
    spec:
      containers:
`

// wantText expects a result without error.
func wantText(t *testing.T, want string, got []byte, err error) {
	t.Helper()
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(want, string(got)), "text")
}

func TestMergeUsesTheKeysOfLists(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ patch, want string }{
		{ // containers merge by name, new ones go last
			`spec: {template: {spec: {containers: [{name: three, image: new}, {name: one, image: new}]}}}`,
			`      - args:
        - -a
        image: new
        name: one
      - image: old
        name: two
      - image: new
        name: three
      tolerations:
      - key: a
      volumes:
      - emptyDir: {}
        name: v
`,
		},
		{ // lists without a key are replaced, elements and fields are deleted
			`{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {tolerations: [{key: b}],
volumes: [{name: v, $patch: delete}],
containers: [{name: two, $patch: delete}, {name: one, args: null}]}}}}`,
			`      - image: old
        name: one
      tolerations:
      - key: b
      volumes: []
`,
		},
	} {
		got, err := patch.Merge([]byte(deployment), []byte(test.patch))
		wantText(t, beforeContainers+test.want, got, err)
	}
	// Without a schema there are no keys to merge lists by.
	const object = "{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: a}]}}"
	got, err := patch.Merge([]byte(object), []byte("spec: {list: [{name: b}]}"))
	wantText(t, "apiVersion: example.com/v1\nkind: Thing\nspec:\n  list:\n  - name: b\n", got, err)
}

func TestJSON6902AppliesPathsRelativeToAPointer(t *testing.T) {
	t.Parallel()
	const object = "{kind: A, list: [{args: [x]}, {args: [y], n: 1000000}]}"
	got, err := patch.JSON6902([]byte(object),
		[]byte("[{op: remove, path: /list/0}, {op: add, path: /null, value: null}]"), "")
	wantText(t, "kind: A\nlist:\n- args:\n  - \"y\"\n  \"n\": 1000000\n\"null\": null\n", got, err)
	got, err = patch.JSON6902([]byte(object), []byte("[{op: add, path: /args/-, value: z}, "+
		"{op: move, from: /n, path: /m}, {op: test, path: /m, value: 1000000}]"), "/list/1")
	wantText(t, "kind: A\nlist:\n- args:\n  - x\n- args:\n  - \"y\"\n  - z\n  m: 1000000\n", got, err)
}

func TestMistakesInPatchesAreReported(t *testing.T) {
	t.Parallel()
	merge := func(p string) error { _, err := patch.Merge([]byte(deployment), []byte(p)); return err }
	apply := func(p string) error {
		_, err := patch.JSON6902([]byte(deployment), []byte(p), "")
		return err
	}
	tests := map[string]struct {
		err  error
		want string
	}{
		"patch of another kind":     {merge("kind: DaemonSet"), `kind "DaemonSet"`},
		"patch of another version":  {merge("apiVersion: apps/v2"), `apiVersion "apps/v2"`},
		"patch is a list":           {merge("[a]"), "is a mapping"},
		"patch is not YAML":         {merge("{"), "parsing patch"},
		"operation without target":  {apply("[{op: remove, path: /nowhere}]"), "/nowhere"},
		"operation with a typo":     {apply("[{op: remove, paht: /kind}]"), "paht"},
		"no operations":             {apply("[]"), "no operations"},
		"failed test operation":     {apply("[{op: test, path: /kind, value: Pod}]"), "/kind"},
		"operations are a mapping":  {apply("a: b"), "decoding patch"},
		"unknown kind of operation": {apply("[{op: plant, path: /kind}]"), "plant"},
	}
	for name, test := range tests {
		assert.Check(t, is.ErrorContains(test.err, test.want), name)
	}
}

func TestCanonicalIsStableAndSorted(t *testing.T) {
	t.Parallel()
	got, err := patch.Canonical([]byte(`# comment
b: ${RELEASE_VERSION}
a: {<<: {y: 1}, x: "0777", z: "yes"}
c: ["--v=${LOG_LEVEL}", 0644]
`))
	want := `a:
  x: "0777"
  "y": 1
  z: "yes"
b: "${RELEASE_VERSION}"
c:
- "--v=${LOG_LEVEL}"
- 420
`
	wantText(t, want, got, err)
	again, err := patch.Canonical(got)
	wantText(t, want, again, err)
	for _, bad := range []string{"", "# only a comment", "[a]", "a: b: c"} {
		_, err := patch.Canonical([]byte(bad))
		assert.Check(t, err != nil, "Canonical(%q) accepts it", bad)
	}
}

func TestBetweenIsWhatTurnsOneObjectIntoAnother(t *testing.T) {
	t.Parallel()
	const after = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, annotations: {a: b}}
spec:
  template:
    spec:
      containers:
      - {name: two, image: "${X_IMAGE}"}
      - {name: three, image: old}
      - {name: one, image: old, args: [-b]}
      volumes:
      - {name: v, emptyDir: {}}
`
	made, err := patch.Between([]byte(deployment), []byte(after), appsv1.Deployment{})
	assert.NilError(t, err)
	before, err := yaml.YAMLToJSON([]byte(deployment))
	assert.NilError(t, err)
	made, err = yaml.YAMLToJSON(made)
	assert.NilError(t, err)
	got, err := strategicpatch.StrategicMergePatch(before, made, appsv1.Deployment{})
	assert.NilError(t, err)
	want, err := patch.Canonical([]byte(after))
	assert.NilError(t, err)
	got, err = patch.Canonical(got)
	wantText(t, string(want), got, err)
	_, err = patch.Between([]byte("- a"), []byte(after), appsv1.Deployment{})
	assert.Check(t, is.ErrorContains(err, "comparing objects"))
}
