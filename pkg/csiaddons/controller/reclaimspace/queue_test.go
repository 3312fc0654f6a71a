package reclaimspace

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/kinds"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

// newReconciler returns a reconciler with one slot, the driver "a" and some objects.
func newReconciler(t *testing.T, objects ...client.Object) (*Reconciler, *[]string) {
	t.Helper()
	known, err := kinds.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.ReclaimSpaceJob{}).Build()
	limited, woken := newSlots(t)
	limited.limits = func() (int, int) { return 1, 1 }
	r := &Reconciler{
		Client: kube, Live: kube, Drivers: settings.Drivers{"a": {Namespaces: []string{"drivers"}}},
		Events: events.NewFakeRecorder(10), Clock: testingclock.NewFakePassiveClock(time.Now()),
	}
	r.slots.limits, r.slots.wake, r.slots.metrics = limited.limits, limited.wake, limited.metrics
	return r, woken
}

func TestJobWithoutClaimLeavesTheQueue(t *testing.T) {
	t.Parallel()
	claim, waits := claimOfTenant("1", corev1.ClaimBound), jobFor("waits", "data")
	r, woken := newReconciler(t, claim, waits, volumeFor("1"))
	if !r.slots.acquire("a", job("runs")) {
		t.Fatal("the first job has no slot")
	}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(waits)}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	r.slots.acquire("a", job("behind"))
	if err := r.Client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	r.slots.release("a", "", job("runs"))
	if got := *woken; len(got) != 1 || got[0] != "behind" {
		t.Errorf("the free slot wakes the jobs %v, want the job behind", got)
	}
}

func TestNoCallStartsAfterStop(t *testing.T) {
	t.Parallel()
	var c calls
	c.stop()
	started := c.start(t.Context(), &v1alpha1.ReclaimSpaceJob{}, time.Minute,
		func(context.Context) outcome {
			t.Error("a call starts")
			return outcome{}
		})
	c.running.Wait()
	if started {
		t.Error("start says that a call runs")
	}
}
