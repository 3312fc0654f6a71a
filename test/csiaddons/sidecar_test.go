//go:build integration

package csiaddons

import (
	"context"
	"net"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	driverName = "example.csi.openstack.org"

	// The ServiceAccounts and the names of the pods of the driver.
	leaderAccount = "controller"
	nodeAccount   = "node"
)

// TestSidecar runs the sidecars of a controller pod and of a node pod with the permissions that
// docs/csi-addons/drivers.md lists: without CRDs at first, then with them, with valid and other
// tokens, and until the controller pod is gone.
func TestSidecar(t *testing.T) {
	t.Parallel()
	w := borrow(t)
	w.apply("controller")
	w.addDriverNamespace(driverNamespace)
	w.createSidecarPermissions(leaderAccount,
		rule("coordination.k8s.io", "leases", "get", "create", "update"))
	w.createSidecarPermissions(nodeAccount)
	w.createVolumeWithSecret()
	w.addNode("worker-1")
	leader := &fakeDriver{
		name: driverName, services: services{controllerService}, inController: answers(0, 0, nil),
	}
	node := &fakeDriver{
		name: driverName, services: services{nodeService}, onNode: answers(0, 0, nil),
	}
	pod := w.addPodOf(leaderAccount, driverNamespace, leaderAccount, "worker-1")
	nodePod := w.addPodOf(nodeAccount, driverNamespace, nodeAccount, "worker-1")
	stop := w.addSidecarAs(w.configOf(pod), pod, leader)
	w.addSidecarAs(w.configOf(nodePod), nodePod, node)

	w.awaitLeader(wire.LeaseName(driverName), pod.Name)
	w.apply("crd")
	w.awaitCRDs()
	w.checkCalls(pod, leader)
	w.checkCalls(nodePod, node)

	stop()
	w.awaitLeader(wire.LeaseName(driverName), "")
	announced := w.awaitSidecar(driverName, ofPod(pod.Name, anyState))
	w.removePod(pod)
	w.awaitGone(announced)
}

// createVolumeWithSecret creates a volume, a Secret for it, and an account without permissions.
func (w *world) createVolumeWithSecret() {
	w.Helper()
	volume := newVolume("default", "data", driverName)
	volume.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{
		Namespace: driverNamespace, Name: "cloud",
	}
	w.create(volume, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: "cloud"},
		Data:       map[string][]byte{"user": []byte("1234567")},
	}, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: "unauthorized"},
	})
}

// anyState accepts every CSIAddonsNode.
func anyState(*v1alpha1.CSIAddonsNode) bool { return true }

// awaitLeader waits until a pod holds a Lease.
func (w *world) awaitLeader(lease, pod string) {
	w.Helper()
	w.eventually(func(ctx context.Context) (bool, error) {
		found := &coordinationv1.Lease{}
		key := types.NamespacedName{Namespace: driverNamespace, Name: lease}
		err := w.client.Get(ctx, key, found)
		return err == nil && ptr.Deref(found.Spec.HolderIdentity, "") == pod, nil
	})
}

// checkCalls calls the sidecar in a pod with tokens that the API server issues.
func (w *world) checkCalls(pod *corev1.Pod, d *fakeDriver) {
	w.Helper()
	node := w.awaitSidecar(driverName, ofPod(pod.Name, anyState))
	audience := wire.Audience(pod.UID)
	endpoint, err := wire.ParseEndpoint(node.Spec.Driver.EndPoint)
	w.must(err)
	pin := node.Annotations[v1alpha1.CertificatePinAnnotation]
	connection, err := grpc.NewClient(
		"passthrough:///"+net.JoinHostPort("127.0.0.1", strconv.FormatUint(uint64(endpoint.Port), 10)),
		grpc.WithTransportCredentials(credentials.NewTLS(wire.PinnedTLS(pin))))
	w.must(err)
	defer connection.Close()
	reclaim := wire.NodeReclaimSpace
	if pod.Name == leaderAccount {
		reclaim = wire.ControllerReclaimSpace
	}
	for _, caller := range []struct {
		namespace, account, audience string
		code                         codes.Code
	}{
		{systemNamespace, managerAccount, audience, codes.OK},
		{
			systemNamespace, managerAccount, wire.Audience("of-another-pod"),
			codes.Unauthenticated,
		},
		{systemNamespace, managerAccount, "", codes.Unauthenticated},
		{systemNamespace, managerAccount, "other", codes.Unauthenticated},
		{driverNamespace, "unauthorized", audience, codes.PermissionDenied},
	} {
		token := w.token(caller.namespace, caller.account, caller.audience)
		ctx := metadata.AppendToOutgoingContext(w.Context(), wire.TokenHeader, wire.TokenPrefix+token)
		request := &wire.ReclaimSpaceRequest{PvName: volumeName("default", "data")}
		_, err := reclaim.Call(ctx, connection, request)
		if status.Code(err) != caller.code {
			w.Errorf("a call of %s/%s with a token for %q returns %v, want %v", caller.namespace,
				caller.account, caller.audience, err, caller.code)
		}
		if got := d.secrets.Load(); err == nil && (*got)["user"] != "1234567" {
			w.Error("the driver did not receive the Secret")
		}
	}
}

// token returns a token of a ServiceAccount for an audience; "" means the API server.
func (w *world) token(namespace, account, audience string) string {
	w.Helper()
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	issued, err := w.plane.Client().CoreV1().ServiceAccounts(namespace).
		CreateToken(w.Context(), account, request, metav1.CreateOptions{})
	w.must(err)
	return issued.Status.Token
}
