package connection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

const (
	// firstTimeout and retryTimeout limit an attempt to connect, in which the sidecar checks the
	// token: the first one, and one after a failure.
	firstTimeout, retryTimeout = 15 * time.Second, 5 * time.Second

	maxRetryDelay = 5 * time.Minute
	// stableInterval is how long a connection must be up, so that its loss is no failed attempt.
	stableInterval = time.Minute
	// problemInterval is the time after which a CSIAddonsNode with a problem is checked again.
	problemInterval = time.Minute
)

// Reasons in the status of a CSIAddonsNode, and of its events.
const (
	ReasonConnected   = "Connected"
	ReasonUnreachable = "Unreachable"
	ReasonPodNotReady = "PodNotReady"
	ReasonNotAllowed  = "DriverNotAllowed"
	ReasonBadEndpoint = "InvalidEndpoint"
	ReasonNotOwned    = "NotOwnedByPod"
	ReasonNoPin       = "NoCertificatePin"
	ReasonWrongNode   = "WrongNode"
	ReasonWrongName   = "WrongName"
	ReasonDuplicate   = "DuplicateOfPod"
	ReasonPodGone     = "PodGone"
	actionConnect     = "Connect"
	actionDelete      = "Delete"
	messageConnected  = "The sidecar answers"
)

// Reconciler maintains the connection to the sidecar of each CSIAddonsNode and the status of that,
// and removes the CSIAddonsNodes of pods that do not exist any more.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, without a cache.
	Live    client.Reader
	Pool    *Pool
	Drivers Drivers
	// RetryDelay is the delay before the second attempt to connect to a sidecar.
	RetryDelay time.Duration
	Events     events.EventRecorder

	// retries counts the failed attempts since the last connection that was stable.
	retries workqueue.TypedRateLimiter[types.NamespacedName]
}

// Reconcile connects to a sidecar, or removes its CSIAddonsNode.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	name := request.NamespacedName
	node := &v1alpha1.CSIAddonsNode{}
	if err := r.Client.Get(ctx, name, node); err != nil {
		r.close(name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if node.DeletionTimestamp != nil {
		r.close(name)
		return reconcile.Result{}, Release(ctx, r.Client, node, v1alpha1.CSIAddonsNodeFinalizer)
	}
	target, err := r.target(ctx, node)
	if err == nil {
		return r.connect(ctx, node, target)
	}
	wrong, ok := errors.AsType[*problem](err)
	if !ok {
		return reconcile.Result{}, err
	}
	r.close(name)
	status := *node.Status.DeepCopy()
	status.State, status.Reason = v1alpha1.CSIAddonsNodeFailed, wrong.reason
	status.Message = wrong.message
	switch wrong.reason {
	case ReasonPodNotReady:
		status.State = v1alpha1.CSIAddonsNodeRetrying
	case ReasonPodGone:
		kept, err := r.keeps(ctx, node)
		if err == nil && !kept {
			err = r.remove(ctx, node, wrong)
		}
		if err != nil || !kept {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: problemInterval}, r.write(ctx, node, status)
}

func (r *Reconciler) close(name types.NamespacedName) {
	r.retries.Forget(name)
	r.Pool.Close(name)
}

// delay returns when to connect again after a connection that was up for some time is lost.
func (r *Reconciler) delay(name types.NamespacedName, up time.Duration) time.Duration {
	if up < stableInterval {
		return r.retries.When(name)
	}
	r.retries.Forget(name)
	return 0
}

// connect connects to a sidecar, and writes the result. A sidecar to which an attempt has failed
// gets less time, and waits for those without an attempt.
func (r *Reconciler) connect(ctx context.Context, node *v1alpha1.CSIAddonsNode, target Target,
) (reconcile.Result, error) {
	name, timeout := client.ObjectKeyFromObject(node), firstTimeout
	if r.retries.NumRequeues(name) > 0 {
		timeout = retryTimeout
	}
	attempt, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sidecar, err := r.Pool.Connect(attempt, name, target)
	status := *node.Status.DeepCopy()
	switch {
	case ctx.Err() != nil:
		return reconcile.Result{}, nil // the controller ends
	case err == nil:
		status.State, status.Reason = v1alpha1.CSIAddonsNodeConnected, ReasonConnected
		status.Message, status.Capabilities = messageConnected, sidecar.Capabilities
		return reconcile.Result{}, r.write(ctx, node, status)
	}
	log.FromContext(ctx).V(1).Info("Failed to connect to the sidecar", "reason", err.Error())
	status.State, status.Reason = v1alpha1.CSIAddonsNodeRetrying, ReasonUnreachable
	status.Message = Describe(err)
	if target.Security == Unverified {
		status.Message += ". If the sidecar serves without TLS, use the flag --plaintext-drivers"
	}
	return reconcile.Result{
		RequeueAfter: r.retries.When(name), Priority: ptr.To(last),
	}, r.write(ctx, node, status)
}

func (r *Reconciler) write(ctx context.Context, node *v1alpha1.CSIAddonsNode,
	status v1alpha1.CSIAddonsNodeStatus,
) error {
	changed := node.DeepCopy()
	changed.Status = status
	written, err := MergeStatus(ctx, r.Client, node, changed)
	if written && node.Status.State != status.State {
		kind := corev1.EventTypeWarning
		if status.State == v1alpha1.CSIAddonsNodeConnected {
			kind = corev1.EventTypeNormal
		}
		r.Events.Eventf(node, nil, kind, status.Reason, actionConnect, "%s", status.Message)
	}
	return err
}

// keeps returns whether the CSIAddonsNode of a missing pod stays, because it contains the addresses
// of a lost Node: the controller may connect to no other sidecar of the driver on this Node.
func (r *Reconciler) keeps(ctx context.Context, node *v1alpha1.CSIAddonsNode) (bool, error) {
	driver := node.Spec.Driver
	if len(node.Status.NetworkFenceClientStatus) == 0 || driver.NodeID == "" {
		return false, nil
	}
	exists, err := r.exists(ctx, types.NamespacedName{Name: driver.NodeID}, &corev1.Node{})
	if err != nil || !exists {
		return false, err
	}
	var all v1alpha1.CSIAddonsNodeList
	err = r.Client.List(ctx, &all, client.MatchingFields{indexNode: driver.NodeID},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing CSIAddonsNodes: %w", err)
	}
	return !slices.ContainsFunc(all.Items, func(other v1alpha1.CSIAddonsNode) bool {
		if other.Namespace != node.Namespace || other.Spec.Driver.Name != driver.Name ||
			other.DeletionTimestamp != nil {
			return false
		}
		_, err := r.target(ctx, &other) // whoever may create CSIAddonsNodes chooses their content
		return err == nil
	}), nil
}

// remove deletes the CSIAddonsNode of a pod that does not exist any more. Kubernetes does the same
// if the pod owns the CSIAddonsNode.
func (r *Reconciler) remove(ctx context.Context, node *v1alpha1.CSIAddonsNode, why *problem) error {
	err := r.Client.Delete(ctx, node, client.Preconditions{
		UID: &node.UID, ResourceVersion: &node.ResourceVersion,
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting CSIAddonsNode %s: %w", client.ObjectKeyFromObject(node), err)
	}
	log.FromContext(ctx).Info("Deleted the CSIAddonsNode", "reason", why.message)
	r.Events.Eventf(node, nil, corev1.EventTypeNormal, why.reason, actionDelete, "%s", why.message)
	return nil
}
