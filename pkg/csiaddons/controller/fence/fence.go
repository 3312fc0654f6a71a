// Package fence runs NetworkFences: it calls the leader of the driver to fence or unfence clients
// of storage. It also writes the clients of each node into the status of its CSIAddonsNode.
package fence

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// Reconciler runs NetworkFences. Its own reconcile is about what needs no call. A caller for each
// driver makes the calls.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, without a cache.
	Live     client.Reader
	Sidecars interface {
		Leader(ctx context.Context, driver string, capabilities ...string) (*connection.Sidecar, error)
	}
	Drivers connection.Drivers
	Events  events.EventRecorder
	Metrics *connection.Metrics
	Clock   clock.PassiveClock

	// callers are those of the drivers, by name.
	callers map[string]*caller
}

// Reconcile reports what only a change of an object corrects, and that a NetworkFence waits for its
// driver. A deletion changes nothing in the storage.
func (r *Reconciler) Reconcile(ctx context.Context, this reconcile.Request,
) (reconcile.Result, error) {
	f := &v1alpha1.NetworkFence{}
	if err := r.Client.Get(ctx, this.NamespacedName, f); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if f.DeletionTimestamp != nil {
		return reconcile.Result{}, connection.Release(ctx, r.Client, f,
			v1alpha1.NetworkFenceFinalizer)
	}
	if settled(f) {
		return reconcile.Result{}, nil
	}
	driver, _, failure := request(ctx, r.Client, f)
	caller := r.callers[driver]
	if failure == nil && caller == nil {
		failure = invalidf(ReasonNoDriver, "The controller does not serve the driver %.63q: an "+
			"administrator can allow it with the flag --driver-namespaces", driver)
	}
	if failure != nil {
		done := describe(failure)
		err := r.write(ctx, f, done, false)
		if err == nil && done.reason == ReasonRetrying {
			err = failure
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !outdated(f) {
		return reconcile.Result{}, nil
	}
	waits := pending(f, ReasonWaiting, "The driver has a call for another NetworkFence")
	err := r.write(ctx, f, waits, false)
	if f.Spec.FenceState != v1alpha1.Unfenced {
		caller.interrupt()
	}
	if apierrors.IsConflict(err) { // the caller was faster
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// settled returns whether the condition says that the current spec is done.
func settled(f *v1alpha1.NetworkFence) bool {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionFenced)
	return !outdated(f) && found.Status != metav1.ConditionUnknown
}

// outdated returns whether the status is not about the current spec.
func outdated(f *v1alpha1.NetworkFence) bool {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionFenced)
	return found == nil || found.ObservedGeneration != f.Generation
}
