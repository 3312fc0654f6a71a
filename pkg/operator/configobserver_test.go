package operator

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

func TestOnlyOnOpenShiftAMissingProxyIsAWarning(t *testing.T) {
	t.Parallel()
	for f, want := range map[flavour.Flavour]int{flavour.Standalone: 1, flavour.Kubernetes: 0} {
		d := assembled(t, f, plugins()...)[0]
		var err error
		d.cluster.Config, err = guest.NewStaticConfig("kubernetes")
		assert.NilError(t, err)
		assert.NilError(t, syncer(t, d, d.configObserver)())
		warnings, sent := 0, d.events.(events.InMemoryRecorder).Events()
		for _, event := range sent {
			if event.Type == corev1.EventTypeWarning {
				warnings++
			}
		}
		assert.Check(t, is.Equal(warnings, want), "%s: %v", f, sent)
		spec, _, _, err := d.operator.GetOperatorState()
		observed := err == nil && (spec.ObservedConfig.Object != nil || spec.ObservedConfig.Raw != nil)
		assert.Check(t, observed, "%s: the TLS profile is not observed: %v", f, err)
	}
}

func TestErrorsOfObserversAreSorted(t *testing.T) {
	t.Parallel()
	got := cluster.NewCondition("ADegraded", opv1.ConditionTrue, "Error", "b\na\nb")
	sortLines(t.Context(), got)
	assert.Check(t, is.Equal(*got.Message, "a\nb"))
}
