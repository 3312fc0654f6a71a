package connection

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// problem is an error that says why the controller does not connect to a sidecar. Usually an event
// of the CSIAddonsNode, its pod or its Node ends it.
type problem struct{ reason, message string }

// Error implements error.
func (p *problem) Error() string { return p.message }

// problemf returns a problem with a message of limited length: it may contain texts of the object.
func problemf(reason, format string, args ...any) error {
	return &problem{reason: reason, message: Describe(fmt.Errorf(format, args...))}
}

// target returns where to connect, or a problem. The content of a CSIAddonsNode comes from whoever
// may create one in its namespace, so it must match the settings and the pod that owns the object.
func (r *Reconciler) target(ctx context.Context, node *v1alpha1.CSIAddonsNode) (Target, error) {
	target := Target{Driver: node.Spec.Driver.Name, Node: node.Spec.Driver.NodeID}
	if !r.Drivers.Allows(target.Driver, node.Namespace) {
		return target, problemf(ReasonNotAllowed, "The controller does not serve pods of driver %s in "+
			"namespace %s: an administrator can allow it with the flag --driver-namespaces",
			target.Driver, node.Namespace)
	}
	endpoint, err := wire.ParseEndpoint(node.Spec.Driver.EndPoint)
	if err != nil {
		return target, problemf(ReasonBadEndpoint, "%v", err)
	}
	if endpoint.Namespace != node.Namespace {
		return target, problemf(ReasonBadEndpoint, "The endpoint names a pod in namespace %s instead of "+
			"%s", endpoint.Namespace, node.Namespace)
	}
	target.Pod = types.NamespacedName{Namespace: endpoint.Namespace, Name: endpoint.Pod}
	pod, err := r.pod(ctx, target.Pod)
	if err != nil {
		return target, err
	}
	target.PodUID, target.Security = pod.UID, r.Drivers[target.Driver].Security
	if target.Security == Pinned {
		target.Pin = node.Annotations[v1alpha1.CertificatePinAnnotation]
	}
	switch name := wire.ObjectName(pod.Name, target.Driver); {
	case !owns(pod, node.OwnerReferences, target.Security):
		return target, problemf(ReasonNotOwned, "Pod %s with the UID %s does not own the CSIAddonsNode",
			pod.Name, pod.UID)
	case target.Security != Pinned:
		err = r.unique(ctx, node, target.Pod)
	case !strings.HasPrefix(target.Pin, "sha256:"):
		err = problemf(ReasonNoPin, "The sidecar publishes no key in the annotation %s: if it "+
			"is a sidecar of the CSI-Addons for Ceph, an administrator can allow it with the flag "+
			"--insecure-drivers, or with --plaintext-drivers if it serves without TLS",
			v1alpha1.CertificatePinAnnotation)
	case node.Name != name:
		err = problemf(ReasonWrongName, "The CSIAddonsNode of driver %s in pod %s has the name "+
			"%s: the controller uses no other", target.Driver, pod.Name, name)
	case pod.Spec.NodeName != "" && target.Node != pod.Spec.NodeName:
		err = problemf(ReasonWrongNode, "Pod %s runs on Node %s, and the CSIAddonsNode names "+
			"another: the flag --node-id of the sidecar must be the name of the Node", pod.Name,
			pod.Spec.NodeName)
	}
	if err == nil && pod.Status.PodIP == "" {
		err = problemf(ReasonPodNotReady, "Pod %s has no IP address yet", pod.Name)
	}
	target.Address = net.JoinHostPort(pod.Status.PodIP,
		strconv.FormatUint(uint64(endpoint.Port), 10))
	return target, err
}

// unique returns a problem if there is an earlier CSIAddonsNode for the same pod and driver. The
// names that sidecars of the CSI-Addons for Ceph choose do not say so.
func (r *Reconciler) unique(ctx context.Context, node *v1alpha1.CSIAddonsNode,
	pod types.NamespacedName,
) error {
	var all v1alpha1.CSIAddonsNodeList
	err := r.Client.List(ctx, &all, client.InNamespace(node.Namespace),
		client.MatchingFields{indexPod: pod.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing CSIAddonsNodes: %w", err)
	}
	for i := range all.Items {
		other := &all.Items[i]
		earlier := cmp.Or(other.CreationTimestamp.Compare(node.CreationTimestamp.Time),
			cmp.Compare(other.Name, node.Name)) < 0
		if earlier && other.Spec.Driver.Name == node.Spec.Driver.Name &&
			other.DeletionTimestamp == nil {
			return problemf(ReasonDuplicate, "CSIAddonsNode %s is for the same pod and driver",
				other.Name)
		}
	}
	return nil
}

// pod returns the pod of a sidecar. The sidecar is gone with its pod or the Node of its pod.
func (r *Reconciler) pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	exists, err := r.exists(ctx, name, pod)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return nil, problemf(ReasonPodGone, "Pod %s does not exist any more", name.Name)
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil, problemf(ReasonPodGone, "Pod %s has ended", name.Name)
	case pod.Spec.NodeName == "":
		return pod, nil
	}
	exists, err = r.exists(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &corev1.Node{})
	if err == nil && !exists {
		err = problemf(ReasonPodGone, "Node %s of pod %s does not exist any more", pod.Spec.NodeName,
			name.Name)
	}
	return pod, err
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
