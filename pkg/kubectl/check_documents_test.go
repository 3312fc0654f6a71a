package kubectl

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
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
