//go:build integration

package csiaddons

import (
	"context"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// TestSidecarsWriteOnlyTheirOwnObject runs a sidecar with the token of its pod. Somebody with the
// token of the pod on another node, which has the same ServiceAccount, cannot change its object.
func TestSidecarsWriteOnlyTheirOwnObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createSidecarPermissions(nodeAccount)
	w.addNode("worker-2")
	own := w.addPodOf(nodeAccount, driverNamespace, "own", "worker-1")
	other := w.addPodOf(nodeAccount, driverNamespace, "other", "worker-2")
	root := w.clientOf(other) // somebody with root on worker-2
	w.awaitPolicy(root, own)

	w.startController("--driver-namespaces=cinder=" + driverNamespace)
	w.addSidecarAs(w.configOf(own), own, &fakeDriver{name: "cinder", services: services{nodeService}})
	found := w.awaitSidecar("cinder", connected)
	w.checkAttacks(root, found, own, other)

	// The controller adds the Node as an owner. The sidecar keeps it, and repairs its object.
	worker := &corev1.Node{}
	w.must(w.client.Get(t.Context(), client.ObjectKey{Name: "worker-1"}, worker))
	owned := found.DeepCopy()
	w.must(controllerutil.SetOwnerReference(worker, owned, w.client.Scheme()))
	delete(owned.Annotations, v1alpha1.CertificatePinAnnotation)
	w.must(w.client.Patch(t.Context(), owned, client.MergeFrom(found)))
	w.awaitSidecar("cinder", func(n *v1alpha1.CSIAddonsNode) bool {
		return len(n.OwnerReferences) == 2 && n.Annotations[v1alpha1.CertificatePinAnnotation] != ""
	})

	// Sidecars of the CSI-Addons for Ceph publish no key, choose other names, and their tokens may be
	// bound to no pod.
	foreign := sidecarObject("ceph", own, "worker-1")
	foreign.Name = "worker-1-" + driverNamespace + "-daemonset-ceph"
	foreign.Finalizers = []string{v1alpha1.CSIAddonsNodeFinalizer}
	delete(foreign.Annotations, v1alpha1.CertificatePinAnnotation)
	assert.Check(t, w.clientOf(nil).Create(t.Context(), foreign), "a sidecar that publishes no key")
}

// awaitPolicy waits until the API server applies the policy.
func (w *world) awaitPolicy(root client.Client, own *corev1.Pod) {
	w.Helper()
	w.eventually(func(ctx context.Context) (bool, error) {
		err := root.Create(ctx, sidecarObject("a", own, "worker-1"), client.DryRunAll)
		return apierrors.IsForbidden(err), nil
	})
}

// checkAttacks tries what somebody with the token of another pod could gain from.
func (w *world) checkAttacks(root client.Client, published *v1alpha1.CSIAddonsNode,
	own, other *corev1.Pod,
) {
	w.Helper()
	ctx := w.Context()
	patch := func(with client.Client, change func(*v1alpha1.CSIAddonsNode)) error {
		changed := published.DeepCopy()
		change(changed)
		return with.Patch(ctx, changed, client.MergeFrom(published))
	}
	stolen := sidecarObject("stolen", other, "worker-2")
	// The names of the CSIAddonsNodes of a pod that has just started.
	occupied, keyless := stolen.DeepCopy(), stolen.DeepCopy()
	occupied.Name = wire.ObjectName("new", "cinder")
	keyless.Name, keyless.Annotations, keyless.OwnerReferences = occupied.Name, nil, nil
	keyless.Finalizers = []string{"example.com/forever"}
	kept, owned := stolen.DeepCopy(), stolen.DeepCopy()
	kept.Finalizers = keyless.Finalizers
	owned.OwnerReferences = append(owned.OwnerReferences, metav1.OwnerReference{
		APIVersion: "v1", Kind: "Node", Name: "worker-2", UID: "1",
	})
	for attack, err := range map[string]error{
		"change a pin": patch(root, func(n *v1alpha1.CSIAddonsNode) {
			n.Annotations[v1alpha1.CertificatePinAnnotation] = "sha256:0"
		}),
		"remove a pin": patch(root, func(n *v1alpha1.CSIAddonsNode) {
			delete(n.Annotations, v1alpha1.CertificatePinAnnotation)
		}),
		"change an endpoint": patch(root, func(n *v1alpha1.CSIAddonsNode) {
			n.Spec.Driver.EndPoint = stolen.Spec.Driver.EndPoint
		}),
		"become the owner": patch(root, func(n *v1alpha1.CSIAddonsNode) {
			n.OwnerReferences = stolen.OwnerReferences
		}),
		"delete an object":            root.Delete(ctx, published.DeepCopy()),
		"create an object of a pod":   root.Create(ctx, sidecarObject("b", own, "worker-2")),
		"create an object for a node": root.Create(ctx, sidecarObject("c", other, "worker-1")),
		"take the name of a new pod":  root.Create(ctx, occupied),
		"take that name without key":  root.Create(ctx, keyless),
		"keep an object for ever":     root.Create(ctx, kept),
		"keep an object for a Node":   root.Create(ctx, owned),
		"create an object without a pod": w.clientOf(nil).Create(ctx,
			sidecarObject("d", own, "worker-1")),
		"change a pin without a pod": patch(w.clientOf(nil), func(n *v1alpha1.CSIAddonsNode) {
			n.Annotations[v1alpha1.CertificatePinAnnotation] = "sha256:0"
		}),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "csi-addons-sidecars") {
			w.Errorf("with the token of another pod, somebody can %s: %v", attack, err)
		}
	}
	if err := root.Create(ctx, stolen); err != nil {
		w.Errorf("a pod cannot create its own object: %v", err)
	}
	if err := root.Delete(ctx, stolen); err != nil {
		w.Errorf("a pod cannot delete its own object: %v", err)
	}
}

// sidecarObject returns a CSIAddonsNode that a pod owns.
func sidecarObject(driverOf string, pod *corev1.Pod, node string) *v1alpha1.CSIAddonsNode {
	endpoint := wire.Endpoint{Pod: pod.Name, Namespace: pod.Namespace, Port: wire.DefaultPort}
	return &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: wire.ObjectName(pod.Name, driverOf),
			Annotations: map[string]string{v1alpha1.CertificatePinAnnotation: "sha256:1"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
			},
		},
		Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
			Name: driverOf, NodeID: node, EndPoint: endpoint.String(),
		}},
	}
}

// configOf returns the configuration of a client with the token that kubelet mounts into a pod, or
// with a token that is bound to no pod.
func (w *world) configOf(pod *corev1.Pod) *rest.Config {
	w.Helper()
	request, account := &authenticationv1.TokenRequest{}, nodeAccount
	if pod != nil {
		account = pod.Spec.ServiceAccountName
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	issued, err := w.plane.Client().CoreV1().ServiceAccounts(driverNamespace).
		CreateToken(w.Context(), account, request, metav1.CreateOptions{})
	w.must(err)
	config := rest.AnonymousClientConfig(w.config)
	config.BearerToken = issued.Status.Token
	return config
}

func (w *world) clientOf(pod *corev1.Pod) client.Client {
	w.Helper()
	found, err := client.New(w.configOf(pod), client.Options{Scheme: w.client.Scheme()})
	w.must(err)
	return found
}

// createSidecarPermissions creates a ServiceAccount in the namespace of the driver with the
// permissions of docs/csi-addons/drivers.md for every sidecar, and with more in this namespace.
func (w *world) createSidecarPermissions(account string, more ...rbacv1.PolicyRule) {
	w.Helper()
	global := metav1.ObjectMeta{Name: account}
	local := metav1.ObjectMeta{Name: account, Namespace: driverNamespace}
	subjects := []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Namespace: driverNamespace, Name: account},
	}
	w.create(
		&corev1.ServiceAccount{ObjectMeta: local},
		&rbacv1.ClusterRole{ObjectMeta: global, Rules: []rbacv1.PolicyRule{
			rule("", "persistentvolumes", "get"),
			rule("", "secrets", "get"),
			rule("authentication.k8s.io", "tokenreviews", "create"),
			rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: global, Subjects: subjects, RoleRef: roleRef("ClusterRole", account),
		},
		&rbacv1.Role{ObjectMeta: local, Rules: append(more, rule(v1alpha1.Group, "csiaddonsnodes",
			"list", "watch", "create", "patch", "delete"))},
		&rbacv1.RoleBinding{
			ObjectMeta: local, Subjects: subjects, RoleRef: roleRef("Role", account),
		},
	)
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs,
	}
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}
