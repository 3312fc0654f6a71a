package connection

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// duplicateInterval is the time after which a CSIAddonsNode is checked that had an earlier one.
const duplicateInterval = time.Minute

// problem says why the controller does not connect to a sidecar. An event of the CSIAddonsNode, its
// pod or its Node ends it.
type problem struct {
	reason, message string
	// gone means that the sidecar does not exist any more.
	gone bool
	// temporary means that the pod is about to change.
	temporary bool
	// again is the time after which the problem is checked without an event; 0 means never.
	again time.Duration
}

func (p *problem) state() v1alpha1.CSIAddonsNodeState {
	if p.temporary {
		return v1alpha1.CSIAddonsNodeRetrying
	}
	return v1alpha1.CSIAddonsNodeFailed
}

// problemf returns a problem with a message of limited length: it may contain texts of the object.
func problemf(reason, format string, args ...any) *problem {
	return &problem{reason: reason, message: Describe(fmt.Errorf(format, args...))}
}

// target returns where to connect. The content of a CSIAddonsNode comes from whoever may create one
// in its namespace, so it must match the settings and the pod that owns the object.
func (r *Reconciler) target(ctx context.Context, node *v1alpha1.CSIAddonsNode,
) (Target, *problem, error) {
	target := Target{Driver: node.Spec.Driver.Name, Node: node.Spec.Driver.NodeID}
	if !r.Drivers.Allows(target.Driver, node.Namespace) {
		return target, problemf(ReasonNotAllowed, "The controller does not serve pods of driver %s in "+
			"namespace %s: an administrator can allow it with the flag --driver-namespaces",
			target.Driver, node.Namespace), nil
	}
	endpoint, err := wire.ParseEndpoint(node.Spec.Driver.EndPoint)
	if err != nil {
		return target, problemf(ReasonBadEndpoint, "%v", err), nil
	}
	if endpoint.Namespace != node.Namespace {
		return target, problemf(ReasonBadEndpoint, "The endpoint names a pod in namespace %s instead of "+
			"%s", endpoint.Namespace, node.Namespace), nil
	}
	pod, wrong, err := r.pod(ctx, types.NamespacedName{
		Namespace: endpoint.Namespace, Name: endpoint.Pod,
	})
	if err != nil || wrong != nil {
		return target, wrong, err
	}
	target.Pod, target.PodUID = client.ObjectKeyFromObject(pod), pod.UID
	target.Security = r.Drivers[target.Driver].Security
	target.Pin = node.Annotations[v1alpha1.CertificatePinAnnotation]
	switch {
	case !owns(pod, node.OwnerReferences, target.Security):
		return target, problemf(ReasonNotOwned, "Pod %s with the UID %s does not own the CSIAddonsNode",
			pod.Name, pod.UID), nil
	case target.Security == Pinned && !strings.HasPrefix(target.Pin, "sha256:"):
		return target, problemf(ReasonNoPin, "The sidecar publishes no key in the annotation %s: if it "+
			"is a sidecar of the CSI-Addons for Ceph, an administrator can allow it with the flag "+
			"--insecure-drivers", v1alpha1.CertificatePinAnnotation), nil
	case target.Security == Pinned && node.Name != wire.ObjectName(pod.Name, target.Driver):
		return target, problemf(ReasonWrongName, "The CSIAddonsNode of driver %s in pod %s has the name "+
			"%s: the controller uses no other", target.Driver, pod.Name,
			wire.ObjectName(pod.Name, target.Driver)), nil
	case target.Security != Pinned:
		target.Pin = ""
		if duplicate, err := r.duplicate(ctx, node); err != nil || duplicate != nil {
			return target, duplicate, err
		}
	case pod.Spec.NodeName != "" && target.Node != pod.Spec.NodeName:
		return target, problemf(ReasonWrongNode, "Pod %s runs on Node %s, and the CSIAddonsNode names "+
			"another: the flag --node-id of the sidecar must be the name of the Node", pod.Name,
			pod.Spec.NodeName), nil
	}
	if pod.Status.PodIP == "" {
		waiting := problemf(ReasonPodNotReady, "Pod %s has no IP address yet", pod.Name)
		waiting.temporary = true
		return target, waiting, nil
	}
	target.Address = net.JoinHostPort(pod.Status.PodIP,
		strconv.FormatUint(uint64(endpoint.Port), 10))
	return target, nil, nil
}

// duplicate returns a problem if there is an earlier CSIAddonsNode for the same pod and driver. The
// names that sidecars of the CSI-Addons for Ceph choose do not say so.
func (r *Reconciler) duplicate(ctx context.Context, node *v1alpha1.CSIAddonsNode,
) (*problem, error) {
	var all v1alpha1.CSIAddonsNodeList
	for _, pod := range podOf(node) {
		err := r.Client.List(ctx, &all, client.MatchingFields{indexPod: pod},
			client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing CSIAddonsNodes: %w", err)
		}
	}
	for i := range all.Items {
		other := &all.Items[i]
		earlier := cmp.Or(other.CreationTimestamp.Compare(node.CreationTimestamp.Time),
			cmp.Compare(other.Name, node.Name)) < 0
		if earlier && other.Namespace == node.Namespace &&
			other.Spec.Driver.Name == node.Spec.Driver.Name && other.DeletionTimestamp == nil {
			found := problemf(ReasonDuplicate, "CSIAddonsNode %s is for the same pod and driver",
				other.Name)
			found.again = duplicateInterval
			return found, nil
		}
	}
	return nil, nil
}

// pod returns the pod of a sidecar. The sidecar is gone with its pod or the Node of its pod.
func (r *Reconciler) pod(ctx context.Context, name types.NamespacedName,
) (*corev1.Pod, *problem, error) {
	gone := func(format string, args ...any) *problem {
		return &problem{reason: ReasonPodGone, message: fmt.Sprintf(format, args...), gone: true}
	}
	pod := &corev1.Pod{}
	exists, err := r.exists(ctx, name, pod)
	switch {
	case err != nil:
		return nil, nil, err
	case !exists:
		return nil, gone("Pod %s does not exist any more", name.Name), nil
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil, gone("Pod %s has ended", name.Name), nil
	case pod.Spec.NodeName == "":
		return pod, nil, nil
	}
	exists, err = r.exists(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &corev1.Node{})
	if err != nil {
		return nil, nil, err
	}
	if !exists {
		return nil, gone("Node %s of pod %s does not exist any more", pod.Spec.NodeName, name.Name), nil
	}
	return pod, nil, nil
}

// exists reads an object. The cache may not contain a new object yet, so the API server decides
// whether an object exists.
func (r *Reconciler) exists(ctx context.Context, name types.NamespacedName, object client.Object,
) (bool, error) {
	err := r.Client.Get(ctx, name, object)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, name, object)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", name, err)
	}
	return true, nil
}

// owns returns whether a pod is among the owners of a CSIAddonsNode. The sidecars of the CSI-Addons
// for Ceph copy the owner of the pod instead if it is a DaemonSet or a StatefulSet.
func owns(pod *corev1.Pod, owners []metav1.OwnerReference, security Security) bool {
	return slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool {
		if owner.UID == pod.UID {
			return true
		}
		controller := metav1.GetControllerOf(pod)
		return security != Pinned && controller != nil && owner.UID == controller.UID
	})
}
