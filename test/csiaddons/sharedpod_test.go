//go:build integration

package csiaddons

import (
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// TestDriversShareAPod runs two drivers in one pod, and another pod of one of them on the same
// node. Each has a connection of its own: while one is lost, jobs use the others.
func TestDriversShareAPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addNode("worker-1")
	newDriver := func(name string) *fakeDriver {
		return &fakeDriver{
			name: name, services: services{nodeService}, reclaims: reclaims{online},
			onNode: answers(9, 1, nil),
		}
	}
	one, other, replica := newDriver("one"), newDriver("other"), newDriver("other")
	pod := w.addPod(driverNamespace, "plugin", "worker-1")
	w.addSidecar(pod, one)
	stop := w.addSidecar(pod, other)
	w.addSidecar(w.addPod(driverNamespace, "plugin-replica", "worker-1"), replica)
	w.startController("--driver-namespaces=one="+driverNamespace+",other="+driverNamespace,
		"--csi-addons-node-retry-delay=1")
	w.awaitSidecar("one", ofPod("plugin", connected))
	before := w.awaitSidecar("other", ofPod("plugin", connected))
	w.awaitSidecar("other", ofPod("plugin-replica", connected))

	stop()
	w.awaitSidecar("other", ofPod("plugin", func(n *v1alpha1.CSIAddonsNode) bool {
		return n.Status.State == v1alpha1.CSIAddonsNodeRetrying
	}))
	for _, name := range []string{"one", "other"} {
		w.addVolume(name, name, "worker-1")
		w.addJob(name, name, v1alpha1.ReclaimSpaceJobSpec{})
		if job := w.awaitEnd(name); job.Status.Result != v1alpha1.OperationSucceeded {
			t.Errorf("the job of driver %s ended with %+v", name, job.Status)
		}
	}
	if a, b, c := one.nodeCalls.Load(), other.nodeCalls.Load(), replica.nodeCalls.Load(); a != 1 ||
		b != 0 || c != 1 {
		t.Errorf("the drivers got %d, %d and %d calls, want 1, 0 and 1", a, b, c)
	}

	// An outage does not delete the CSIAddonsNode.
	w.addSidecar(pod, other)
	after := w.awaitSidecar("other", ofPod("plugin", connected))
	if before.UID != after.UID {
		t.Errorf("the CSIAddonsNode %s was replaced", after.Name)
	}
}
