package diagnosis_test

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

func TestWorkloadIsRolledOutWithTheNewestPodsOnly(t *testing.T) {
	t.Parallel()
	type status = appsv1.DeploymentStatus
	of := func(s status) metav1.Object { return &appsv1.Deployment{Status: s} }
	ofNodes := func(s appsv1.DaemonSetStatus) metav1.Object { return &appsv1.DaemonSet{Status: s} }
	unseen := of(status{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1})
	unseen.SetGeneration(1)
	for name, test := range map[string]struct {
		object metav1.Object
		want   bool
	}{
		"yes":           {of(status{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}), true},
		"not seen":      {unseen, false},
		"earlier pods":  {of(status{Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2}), false},
		"not available": {of(status{Replicas: 1, UpdatedReplicas: 1}), false},
		"nodes": {ofNodes(appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2,
		}), true},
		"a node": {ofNodes(appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 2, UpdatedNumberScheduled: 1, NumberAvailable: 2,
		}), false},
	} {
		assert.Check(t, is.Equal(diagnosis.NewWorkload(test.object, nil).RolledOut, test.want), name)
	}
}
