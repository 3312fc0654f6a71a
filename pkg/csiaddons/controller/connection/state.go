package connection

import (
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// BecomesConnected returns whether the sidecar of a CSIAddonsNode has just been connected.
func BecomesConnected(e event.UpdateEvent) bool {
	before := e.ObjectOld.(*v1alpha1.CSIAddonsNode).Status.State
	now := e.ObjectNew.(*v1alpha1.CSIAddonsNode).Status.State
	return now == v1alpha1.CSIAddonsNodeConnected && before != now
}
