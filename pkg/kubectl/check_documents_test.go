package kubectl

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/values"
)

// A small file can name a large text many times, and each time it would be parsed again.
func TestRepeatedTextsAreLimited(t *testing.T) {
	t.Parallel()
	for _, item := range []string{
		"{kind: Application, spec: {source: {chart: openstack-csi, helm: {values: *text}}}}",
		"{kind: ConfigMap, data: {operator.yaml: *text}}",
	} {
		file := "text: &text 'a: " + strings.Repeat("x", 600<<10) + "'\nkind: List\nitems:\n" +
			strings.Repeat("- "+item+"\n", 1000)
		in := contentsOf([]byte(file))
		assert.Check(t, len(in.documents) <= 1)
		assert.Assert(t, is.Len(in.faults, 1))
		assert.Check(t, is.Contains(in.faults[0].Problem, "larger than 1 MiB"))
	}
}

// Whatever tool reads a file, the values in it are checked, and nothing else.
func TestValuesInFilesOfTools(t *testing.T) {
	t.Parallel()
	for reclaim, want := range map[string]int{"Retain": 0, "retain": 1} {
		files, err := values.Wrapped(chartName, map[string]any{
			"clusterID": "mine", "cinder": map[string]any{
				"enabled": true, "spec": map[string]any{"class": map[string]any{"reclaimPolicy": reclaim}},
			},
		})
		assert.NilError(t, err)
		for tool, file := range files {
			in := contentsOf([]byte(file))
			configs, faults, err := in.check()
			assert.NilError(t, err)
			assert.Check(t, is.Len(faults, want), "%s: %v", tool, faults)
			assert.Check(t, len(configs) > 0, tool)
		}
	}
}

// A tool fills in values of objects, but not the names of fields.
func TestTemplatesAreNotChecked(t *testing.T) {
	t.Parallel()
	for _, filled := range []string{"{{ .name }}", "${NAME}", "$ARGOCD_APP_NAME"} {
		in := contentsOf([]byte(fmt.Sprintf(`
kind: ApplicationSet
spec:
  chart: openstack-csi
  valuesObject:
    clusterID: '%[1]s'
    clusterId: '%[1]s'
    images: {mirror: '%[1]s/a'}
`, filled)))
		_, faults, err := in.check()
		assert.NilError(t, err)
		assert.Assert(t, is.Len(faults, 1), "%v", faults)
		assert.Check(t, is.Contains(faults[0].Problem, "did you mean"))
		assert.Check(t, is.Len(in.notes, 3), in.notes)
	}
}

// Parameters of Argo CD are read as helm --set reads them.
func TestParametersAreTyped(t *testing.T) {
	t.Parallel()
	in := contentsOf([]byte(`
kind: Application
spec:
  source:
    chart: openstack-csi
    helm:
      parameters:
      - {name: clusterID, value: "00123"}
      - {name: manila.enabled, value: "true"}
      - {name: 'pods.node.nodeSelector.example\.com/storage', value: "1.0"}
`))
	_, faults, err := in.check()
	assert.NilError(t, err)
	assert.Check(t, is.Len(faults, 0), "%v", faults)
}
