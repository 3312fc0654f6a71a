package operator

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// On Kubernetes nobody but the administrator writes the spec.
func TestOnlyOnOpenShiftTheSpecContainsWhatIsObserved(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		observer, err := assembled(t, f, plugins()...)[0].configObserver("x")
		assert.Check(t, err == nil && (observer != nil) == (f != flavour.Kubernetes), "%s: %v", f, err)
	}
}

func TestErrorsOfObserversAreSorted(t *testing.T) {
	t.Parallel()
	got := cluster.NewCondition("ADegraded", opv1.ConditionTrue, "Error", "b\na\nb")
	sortLines(t.Context(), got)
	assert.Check(t, is.Equal(*got.Message, "a\nb"))
}
