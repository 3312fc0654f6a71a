// Package fence runs NetworkFences: it calls the leader of the driver to fence or unfence clients
// of storage. It also writes the clients of each node into the status of its CSIAddonsNode.
package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// ConditionFenced is True if the clients of the current spec are fenced, and False if they are
// unfenced. It is Unknown while a call runs or has failed, because a driver may have done a part.
const ConditionFenced = "Fenced"

// Reasons of the status, the condition and events.
const (
	ReasonFenced      = "Fenced"
	ReasonUnfenced    = "Unfenced"
	ReasonStarted     = "Started"
	ReasonRetrying    = "Retrying"
	ReasonNoDriver    = "NoDriver"
	ReasonInvalidCIDR = "InvalidCIDR"
	// ReasonInvalidClass is about the parameters of a NetworkFenceClass.
	ReasonInvalidClass = "InvalidClass"
	ReasonRefused      = "Refused"

	actionFence = "Fence"
	// callTimeout limits one call of a driver.
	callTimeout = 3 * time.Minute
)

// Reconciler runs NetworkFences.
type Reconciler struct {
	Client  client.Client
	Router  *connection.Router
	Drivers settings.Drivers
	Events  events.EventRecorder
	Metrics *metrics.Metrics
	Clock   clock.PassiveClock
}

// Reconcile fences or unfences the clients of the current spec, unless the condition says that this
// is done. A deletion changes nothing in the storage.
func (r *Reconciler) Reconcile(ctx context.Context, this reconcile.Request,
) (reconcile.Result, error) {
	f := &v1alpha1.NetworkFence{}
	if err := r.Client.Get(ctx, this.NamespacedName, f); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if f.DeletionTimestamp != nil {
		return reconcile.Result{}, r.release(ctx, f)
	}
	if settled(f) {
		return reconcile.Result{}, nil
	}
	driver, call, err := request(ctx, r.Client, f)
	if err == nil && len(r.Drivers[driver].Namespaces) == 0 {
		err = invalidf(ReasonNoDriver, "The controller does not serve the driver %.63q: an "+
			"administrator can allow it with the flag --driver-namespaces", driver)
	}
	if err == nil {
		err = r.call(ctx, f, driver, call)
	}
	return reconcile.Result{}, r.finish(ctx, f, err)
}

// settled returns whether the current spec needs no call: it is done, or only a change corrects it.
func settled(f *v1alpha1.NetworkFence) bool {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionFenced)
	return found != nil && found.ObservedGeneration == f.Generation &&
		(found.Status != metav1.ConditionUnknown || found.Reason == ReasonRefused)
}

// call calls the leader of a driver.
func (r *Reconciler) call(ctx context.Context, f *v1alpha1.NetworkFence, driver string,
	request *wire.NetworkFenceRequest,
) error {
	sidecar, err := r.Router.Leader(ctx, driver, connection.NetworkFence)
	if err != nil {
		return err
	}
	if sidecar == nil {
		return fmt.Errorf("the controller is not connected to the pod that is the leader of driver %s "+
			"and can fence", driver)
	}
	text := fmt.Sprintf("Pod %s changes the access of the clients: %s", sidecar.Pod.Name,
		f.Spec.FenceState)
	err = r.write(ctx, f, outcome{f.Status.Result, metav1.ConditionUnknown, ReasonStarted, text})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began, operation := r.Clock.Now(), "FenceClusterNetwork"
	if f.Spec.FenceState == v1alpha1.Unfenced {
		operation = "UnFenceClusterNetwork"
		_, err = sidecar.NetworkFence.UnFenceClusterNetwork(limited, request)
	} else {
		_, err = sidecar.NetworkFence.FenceClusterNetwork(limited, request)
	}
	r.Metrics.Ended(driver, operation, status.Code(err).String(), r.Clock.Since(began))
	return err
}

// finish writes the result of an attempt. It returns an error if there will be another attempt.
func (r *Reconciler) finish(ctx context.Context, f *v1alpha1.NetworkFence, failure error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the next process repeats the call
	}
	result := describe(f, failure)
	err := r.write(ctx, f, result)
	if result.reason == ReasonRetrying {
		err = errors.Join(failure, err)
	}
	return err
}

// outcome is what the status says about a call.
type outcome struct {
	result v1alpha1.OperationResult
	fenced metav1.ConditionStatus

	reason, message string
}

// describe returns the outcome of an attempt that has ended with an error, or with nil.
func describe(f *v1alpha1.NetworkFence, failure error) outcome {
	var wrong *invalid
	switch code := status.Code(failure); {
	case failure == nil && f.Spec.FenceState == v1alpha1.Unfenced:
		return outcome{
			v1alpha1.OperationSucceeded, metav1.ConditionFalse, ReasonUnfenced,
			"The clients have access again",
		}
	case failure == nil:
		return outcome{
			v1alpha1.OperationSucceeded, metav1.ConditionTrue, ReasonFenced,
			"The clients have no access",
		}
	case errors.As(failure, &wrong):
		return outcome{
			v1alpha1.OperationFailed, metav1.ConditionUnknown, wrong.reason, wrong.message,
		}
	case code == codes.InvalidArgument || code == codes.Unimplemented:
		return outcome{
			v1alpha1.OperationFailed, metav1.ConditionUnknown, ReasonRefused,
			connection.Describe(failure),
		}
	}
	return outcome{
		v1alpha1.OperationFailed, metav1.ConditionUnknown, ReasonRetrying,
		connection.Describe(failure),
	}
}

// write updates the status, and records an event if the reason or the message changes.
func (r *Reconciler) write(ctx context.Context, f *v1alpha1.NetworkFence, o outcome) error {
	changed := f.DeepCopy()
	changed.Status.Result, changed.Status.Reason = o.result, o.reason
	changed.Status.Message = o.message
	meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
		Type: ConditionFenced, Status: o.fenced, Reason: o.reason, Message: o.message,
		ObservedGeneration: f.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	if equality.Semantic.DeepEqual(changed.Status, f.Status) {
		return nil
	}
	wanted := changed.Status.DeepCopy()
	if err := r.Client.Status().Update(ctx, changed); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("writing the status of NetworkFence %s: %w", f.Name, err))
	}
	changed.Status = *wanted // the response may lack fields
	changed.DeepCopyInto(f)
	kind := corev1.EventTypeNormal
	if o.result == v1alpha1.OperationFailed && o.reason != ReasonStarted {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(f, nil, kind, o.reason, actionFence, "%s", o.message)
	return nil
}

// release removes the finalizer that the controller of the CSI-Addons for Ceph sets.
func (r *Reconciler) release(ctx context.Context, f *v1alpha1.NetworkFence) error {
	if !slices.Contains(f.Finalizers, v1alpha1.NetworkFenceFinalizer) {
		return nil
	}
	changed := f.DeepCopy()
	controllerutil.RemoveFinalizer(changed, v1alpha1.NetworkFenceFinalizer)
	patch := client.MergeFromWithOptions(f, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, changed, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("removing the finalizer of NetworkFence %s: %w", f.Name,
			err))
	}
	return nil
}
