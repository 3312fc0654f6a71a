//go:build integration && long

package csiaddons

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/fence"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// cephSidecar is a sidecar of the CSI-Addons for Ceph: with TLS it has a certificate of its own,
// and accepts every token that is valid for the API server. It refuses a fence without a Secret.
type cephSidecar struct {
	*world

	driver *fakeDriver
	secure bool
	fences chan *wire.NetworkFenceRequest
}

func (s *cephSidecar) fence(_ context.Context, request *wire.NetworkFenceRequest,
) (*wire.NetworkFenceResponse, error) {
	if request.GetSecretName() == "" {
		return nil, status.Error(codes.InvalidArgument, "the Secret is missing")
	}
	s.fences <- request
	return &wire.NetworkFenceResponse{}, nil
}

func (*cephSidecar) reclaim(context.Context, *wire.ReclaimSpaceRequest) (
	*wire.ReclaimSpaceResponse, error,
) {
	return &wire.ReclaimSpaceResponse{
		PreUsage:  &wire.StorageConsumption{UsageBytes: 3 << 20},
		PostUsage: &wire.StorageConsumption{UsageBytes: 1 << 20},
	}, nil
}

// check refuses calls without a valid token, unless the sidecar runs with --enable-auth=false.
func (s *cephSidecar) check(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler,
) (any, error) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if !s.secure {
		assert.Check(s, len(values) == 0, "a sidecar without authentication gets a token")
		return handle(ctx, request)
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{
		Token: strings.TrimPrefix(strings.Join(values, ""), "Bearer "),
	}}
	answer, err := s.plane.Client().AuthenticationV1().TokenReviews().
		Create(ctx, review, metav1.CreateOptions{})
	if err != nil || !answer.Status.Authenticated {
		return nil, status.Errorf(codes.Unauthenticated, "the token is not valid: %v", err)
	}
	return handle(ctx, request)
}

// start serves in a pod of a Deployment, and creates what such a sidecar creates. The holder of its
// Lease is the name of the pod with hyphens for dots.
func (s *cephSidecar) start(pod *corev1.Pod) {
	s.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	s.must(err)
	pair, err := tls.X509KeyPair(certificate, key)
	s.must(err)
	options := []grpc.ServerOption{grpc.UnaryInterceptor(s.check)}
	if s.secure {
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	}
	server := grpc.NewServer(options...)
	identity.RegisterIdentityServer(server, s.driver)
	wire.Register(server, wire.ReclaimSpace, wire.NodeReclaimSpace.By(s.reclaim))
	wire.Register(server, wire.NetworkFence, wire.FenceClusterNetwork.By(s.fence))
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "127.0.0.1:0")
	s.must(err)
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	s.Cleanup(server.Stop)
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	holder := strings.ReplaceAll(pod.Name, ".", "-")
	s.create(&v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace,
			Name:      pod.Spec.NodeName + "-" + pod.Namespace + "-deployment-" + s.driver.name,
			Annotations: map[string]string{
				v1alpha1.CreatedByPodUIDAnnotation: string(pod.UID),
				v1alpha1.LastUpdatedAtAnnotation:   time.Now().Format(time.RFC3339),
			},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
			},
		},
		Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
			Name: s.driver.name, NodeID: pod.Spec.NodeName,
			EndPoint: "pod://" + pod.Name + "." + pod.Namespace + ":" + port,
		}},
	}, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: s.driver.name + "-csi-addons"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	})
}

// TestOtherSystem runs our controller with sidecars of the CSI-Addons for Ceph, and our sidecars
// with its controller.
func TestOtherSystem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.part("its sidecars", (*world).checkSidecarsOfTheOtherSystem)
	w.part("its controller", (*world).checkControllerOfTheOtherSystem)
}

// checkSidecarsOfTheOtherSystem runs operations with its sidecars, with and without TLS. The same
// controller also serves one of ours.
func (w *world) checkSidecarsOfTheOtherSystem() {
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: "cloud"},
	})
	w.startController("--driver-namespaces=ceph="+driverNamespace+",open="+driverNamespace+
		",own="+driverNamespace, "--insecure-drivers=ceph", "--plaintext-drivers=open")
	w.addSidecar(w.addPod(driverNamespace, "own", "worker-1"), nodeDriver("own"))
	for name, secure := range map[string]bool{"ceph": true, "open": false} {
		s := &cephSidecar{
			world: w, secure: secure, fences: make(chan *wire.NetworkFenceRequest, 10),
			driver: &fakeDriver{
				name: name, services: services{nodeService, controllerService}, reclaims: reclaims{online},
				fences: []identity.Capability_NetworkFence_Type{
					identity.Capability_NetworkFence_NETWORK_FENCE,
				},
			},
		}
		s.start(w.addPod(driverNamespace, "rook."+name+"-0", "worker-1"))
		w.awaitSidecar(name, connected)
		w.addFence(name, v1alpha1.NetworkFenceSpec{
			Driver: name, Cidrs: []string{"10.0.0.1/32"}, Parameters: map[string]string{"clusterID": "a"},
			Secret: &v1alpha1.SecretSpec{Namespace: driverNamespace, Name: "cloud"},
		})
		w.awaitFence(name, v1alpha1.OperationSucceeded, fence.ReasonFenced)
		if got := <-s.fences; got.GetSecretName() != "cloud" || got.GetParameters()["clusterID"] != "a" ||
			got.GetSecretNamespace() != driverNamespace || got.GetCidrs()[0] != "10.0.0.1/32" {
			w.Errorf("the sidecar of driver %s gets %v", name, got)
		}
		w.addFence(name+"-alone", v1alpha1.NetworkFenceSpec{
			Driver: name, Cidrs: []string{"10.0.0.2/32"}, Secret: &v1alpha1.SecretSpec{},
		})
		refused := w.awaitFence(name+"-alone", v1alpha1.OperationFailed, fence.ReasonRetrying)
		assert.Check(w, strings.Contains(fmt.Sprint(refused.Status.Conditions), "the Secret is missing"),
			"without a Secret the status is %+v", refused.Status)
	}
	for name, reclaimed := range map[string]string{"ceph": "2Mi", "open": "2Mi", "own": "8"} {
		w.addVolume(name, name, "worker-1")
		w.addJob(name, name)
		job := w.awaitEnd(name)
		if job.Status.Result != v1alpha1.OperationSucceeded ||
			job.Status.ReclaimedSpace.String() != reclaimed {
			w.Errorf("the job of driver %s has the status %+v", name, job.Status)
		}
	}
}

// checkControllerOfTheOtherSystem calls our sidecars as the controller of the CSI-Addons for Ceph
// does, with its TLS mode and without: it does not verify the certificate, and sends its own token.
func (w *world) checkControllerOfTheOtherSystem() {
	const account = "odf"
	w.create(&corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: account},
	})
	w.bindDriverRole(driverNamespace, account)
	ctx := metadata.AppendToOutgoingContext(w.Context(), "authorization",
		"Bearer "+w.token(systemNamespace, account, ""))
	for name, mode := range map[string]struct {
		flags     []string
		transport credentials.TransportCredentials
	}{
		"secure": {
			[]string{"--token-audience="},
			credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}), //nolint:gosec // as that controller
		},
		"plain": {[]string{"--enable-auth=false"}, insecure.NewCredentials()},
	} {
		d := fenceDriver(name + ".csi.openstack.org")
		d.reclaims, d.onNode = reclaims{online, offline}, answers(3, 1, nil)
		d.inController = answers(0, 0, status.Error(codes.Unimplemented, "only on nodes"))
		pod := w.addPod(driverNamespace, "rook."+name+"-0", "worker-1")
		w.addSidecar(pod, d, mode.flags...)
		w.addVolume(name, d.name, "worker-1")
		found := w.awaitSidecar(d.name, anyState)
		prefix := "pod://" + pod.Name + "." + pod.Namespace + ":"
		port, ok := strings.CutPrefix(found.Spec.Driver.EndPoint, prefix)
		assert.Check(w, ok && found.Spec.Driver.NodeID == "worker-1",
			"the CSIAddonsNode is %+v", found.Spec.Driver)
		w.awaitLeader(name+"-csi-openstack-org-csi-addons", "rook-"+name+"-0")
		connection, err := grpc.NewClient("passthrough:///"+net.JoinHostPort("127.0.0.1", port),
			grpc.WithTransportCredentials(mode.transport))
		w.must(err)
		w.Cleanup(func() { _ = connection.Close() })
		w.callAsOtherController(ctx, connection, d, volumeName("default", name))
		if name == "secure" {
			_, err := identity.NewIdentityClient(connection).
				GetCapabilities(w.Context(), &identity.GetCapabilitiesRequest{})
			assert.Check(w, status.Code(err) == codes.Unauthenticated,
				"without a token the error is %v", err)
		}
	}
}

// callAsOtherController sends the requests of the controller of the CSI-Addons for Ceph: it always
// calls the controller service of a driver, too, and accepts UNIMPLEMENTED. It shows a state only
// after GetFenceClients.
func (w *world) callAsOtherController(ctx context.Context, connection *grpc.ClientConn,
	d *fakeDriver, volume string,
) {
	w.Helper()
	answer, err := identity.NewIdentityClient(connection).
		GetCapabilities(ctx, &identity.GetCapabilitiesRequest{})
	assert.Check(w, err == nil && len(answer.GetCapabilities()) == 6,
		"%s: the capabilities are %v, %v", d.name, answer, err)
	request := &wire.ReclaimSpaceRequest{PvName: volume}
	used, err := wire.NodeReclaimSpace.Call(ctx, connection, request)
	assert.Check(w, err == nil && used.GetPreUsage().GetUsageBytes() == 3,
		"%s: the answer about reclaimed space is %v, %v", d.name, used, err)
	_, err = wire.ControllerReclaimSpace.Call(ctx, connection, request)
	assert.Check(w, status.Code(err) == codes.Unimplemented,
		"%s: the answer of the controller service is %v", d.name, err)
	clients, err := wire.GetFenceClients.Call(ctx, connection, &wire.FenceClientsRequest{})
	assert.Check(w, err == nil && clients.GetClients()[0].GetCidrs()[0] == storageAddress,
		"%s: the clients are %v, %v", d.name, clients, err)
	lost := &wire.NetworkFenceRequest{Cidrs: []string{"10.0.0.1/32"}}
	_, err = wire.FenceClusterNetwork.Call(ctx, connection, lost)
	assert.Check(w, err == nil && (<-d.fenced).GetCidrs()[0].GetCidr() == "10.0.0.1/32",
		"%s: the fence fails with %v", d.name, err)
	if _, err = wire.UnFenceClusterNetwork.Call(ctx, connection, lost); err != nil {
		w.Errorf("%s: the end of the fence fails with %v", d.name, err)
	}
	assert.Check(w, is.Len(d.unfenced, 1), "%s: calls to unfence", d.name)
	assert.Check(w, is.Equal((<-d.unfenced).GetCidrs()[0].GetCidr(), "10.0.0.1/32"), d.name)
}
