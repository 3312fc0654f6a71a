// Package fence runs NetworkFences: it calls the leader of the driver to fence or unfence clients
// of storage. It also writes the clients of each node into the status of its CSIAddonsNode.
package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// callTimeout limits one call of a driver.
	callTimeout = 3 * time.Minute
	// turnInterval is the time after which a NetworkFence tries again if another one of its driver has
	// a call, or if it has changed.
	turnInterval = time.Second
	// waitInterval is the time after which a NetworkFence that waits for the end of another one is
	// compared again.
	waitInterval = 15 * time.Second
)

// Reconciler runs NetworkFences. A driver has one call at a time, so that each call depends on the
// NetworkFences that exist when it starts.
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

	// calling contains the drivers that have a call.
	calling sync.Map
	// refusals are consecutive refusals of drivers, by the name of the NetworkFence.
	refusals sync.Map
}

// Errors after which another attempt follows soon, without a change of a status.
var (
	// errChanged means that a NetworkFence is not what the cache contains.
	errChanged = errors.New("the NetworkFence has changed")
	// errBusy means that the driver has a call, or needs more than one. A driver of many shares
	// continues where the previous call has ended.
	errBusy = errors.New("the driver needs more time")
)

// Reconcile fences or unfences the clients of the current spec, unless the condition says that this
// is done. A deletion changes nothing in the storage.
func (r *Reconciler) Reconcile(ctx context.Context, this reconcile.Request,
) (reconcile.Result, error) {
	f := &v1alpha1.NetworkFence{}
	if err := r.Client.Get(ctx, this.NamespacedName, f); err != nil {
		r.forget(this.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if f.DeletionTimestamp != nil {
		return reconcile.Result{}, connection.Release(ctx, r.Client, f,
			v1alpha1.NetworkFenceFinalizer)
	}
	if settled, err := r.settled(ctx, f); settled || err != nil {
		return reconcile.Result{}, err
	}
	driver, call, err := request(ctx, r.Client, f)
	if err == nil && len(r.Drivers[driver].Namespaces) == 0 {
		err = invalidf(ReasonNoDriver, "The controller does not serve the driver %.63q: an "+
			"administrator can allow it with the flag --driver-namespaces", driver)
	}
	if err != nil {
		return reconcile.Result{}, r.finish(ctx, f, outcome{}, err)
	}
	if _, busy := r.calling.LoadOrStore(driver, true); busy {
		if outdated(f) {
			waits := pending(f, ReasonWaiting, "The driver has a call for another NetworkFence")
			if err := r.write(ctx, f, waits); err != nil {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{RequeueAfter: turnInterval}, nil
	}
	defer r.calling.Delete(driver)
	done, err := r.call(ctx, f, driver, call)
	if errors.Is(err, errChanged) || errors.Is(err, errBusy) {
		return reconcile.Result{RequeueAfter: turnInterval}, nil
	}
	result := reconcile.Result{}
	if done.reason == ReasonFencedByAnother {
		result.RequeueAfter = waitInterval
	}
	return result, r.finish(ctx, f, done, err)
}

// settled returns whether the current spec needs no call: it is done, or only a change corrects it.
// After a refusal, a new NetworkFenceClass with the same name is such a change: the parameters of a
// class are immutable.
func (r *Reconciler) settled(ctx context.Context, f *v1alpha1.NetworkFence) (bool, error) {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionFenced)
	switch {
	case outdated(f):
		return false, nil
	case found.Status != metav1.ConditionUnknown:
		return true, nil
	case found.Reason != ReasonRefused:
		return false, nil
	case f.Spec.NetworkFenceClassName == "":
		return true, nil
	}
	class, err := classOf(ctx, r.Client, f)
	if class == nil {
		return err == nil, err
	}
	return !class.CreationTimestamp.After(found.LastTransitionTime.Time), nil
}

// outdated returns whether the status is not about the current spec.
func outdated(f *v1alpha1.NetworkFence) bool {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionFenced)
	return found == nil || found.ObservedGeneration != f.Generation
}

// leader returns the sidecar that is the leader of a driver.
func (r *Reconciler) leader(ctx context.Context, driver string) (*connection.Sidecar, error) {
	sidecar, err := r.Sidecars.Leader(ctx, driver, connection.NetworkFence)
	if err == nil && sidecar == nil {
		err = fmt.Errorf("the controller is not connected to the pod that is the leader of driver %s "+
			"and can fence", driver)
	}
	return sidecar, err
}

// call calls the leader of a driver, unless the NetworkFence in the cache is not the current one.
// It returns the outcome if there is no error. It makes no call to unfence CIDRs again, or those
// that another NetworkFence fences.
func (r *Reconciler) call(ctx context.Context, f *v1alpha1.NetworkFence, driver string,
	request *wire.NetworkFenceRequest,
) (outcome, error) {
	others, err := r.others(ctx, f, driver, request.GetParameters())
	if err != nil {
		return outcome{}, err
	}
	if f.Spec.FenceState == v1alpha1.Unfenced {
		request.Cidrs = masked(others.unfenced)
	}
	done := others.outcome(f)
	if len(request.GetCidrs()) == 0 {
		return done, nil
	}
	sidecar, err := r.leader(ctx, driver)
	if err != nil {
		return outcome{}, err
	}
	text := fmt.Sprintf("Pod %s changes the access of the clients: %s", sidecar.Pod.Name,
		f.Spec.FenceState)
	if err := r.start(ctx, f, text); err != nil {
		return outcome{}, err
	}
	return done, r.send(ctx, sidecar, f.Spec.FenceState, request)
}

// send calls a driver. It returns errBusy if the call takes too long.
func (r *Reconciler) send(ctx context.Context, to *connection.Sidecar, state v1alpha1.FenceState,
	request *wire.NetworkFenceRequest, options ...grpc.CallOption,
) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began, operation, call := r.Clock.Now(), "FenceClusterNetwork", to.NetworkFence.FenceClusterNetwork
	if state == v1alpha1.Unfenced {
		operation, call = "UnFenceClusterNetwork", to.NetworkFence.UnFenceClusterNetwork
	}
	_, err := call(limited, request, options...)
	r.Metrics.Ended(to.Driver, operation, status.Code(err).String(), r.Clock.Since(began))
	deadline, _ := limited.Deadline() // of the sidecar too, which may end the call a little earlier
	if status.Code(err) == codes.DeadlineExceeded && time.Until(deadline) < time.Second {
		return errBusy
	}
	return err
}
