//go:build integration

package csiaddons

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/sidecar"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	driverName      = "example.csi.openstack.org"
	driverNamespace = "csi"

	// The ServiceAccounts of the pods of the driver.
	leaderAccount = "controller"
	nodeAccount   = "node"
)

// reclaimer is a driver that accepts every volume. It serves the controller service or the node
// service.
type reclaimer struct {
	identity.UnimplementedIdentityServer
	reclaimspace.UnimplementedReclaimSpaceControllerServer
	reclaimspace.UnimplementedReclaimSpaceNodeServer

	service identity.Capability_Service_Type
}

func (reclaimer) Probe(context.Context, *identity.ProbeRequest) (*identity.ProbeResponse, error) {
	return &identity.ProbeResponse{}, nil
}

func (reclaimer) GetIdentity(context.Context, *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{Name: driverName}, nil
}

func (r reclaimer) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	return &identity.GetCapabilitiesResponse{Capabilities: []*identity.Capability{
		{Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: r.service}}},
	}}, nil
}

func (reclaimer) ControllerReclaimSpace(
	_ context.Context, request *reclaimspace.ControllerReclaimSpaceRequest,
) (*reclaimspace.ControllerReclaimSpaceResponse, error) {
	used := int64(len(request.GetSecrets()["user"]))
	return &reclaimspace.ControllerReclaimSpaceResponse{
		PostUsage: &reclaimspace.StorageConsumption{UsageBytes: used},
	}, nil
}

func (reclaimer) NodeReclaimSpace(_ context.Context, request *reclaimspace.NodeReclaimSpaceRequest,
) (*reclaimspace.NodeReclaimSpaceResponse, error) {
	used := int64(len(request.GetSecrets()["user"]))
	return &reclaimspace.NodeReclaimSpaceResponse{
		PostUsage: &reclaimspace.StorageConsumption{UsageBytes: used},
	}, nil
}

// TestSidecar runs the sidecars of a controller pod and of a node pod with the permissions that
// docs/csi-addons.md lists: without CRDs at first, then with them, with valid and other tokens, and
// until the controller pod is gone.
func TestSidecar(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	kube := c.plane.Client()
	c.createSidecarObjects(kube)
	pod, nodePod := c.createPod(kube, leaderAccount), c.createPod(kube, nodeAccount)
	stop := c.startSidecar(pod, identity.Capability_Service_CONTROLLER_SERVICE)
	c.startSidecar(nodePod, identity.Capability_Service_NODE_SERVICE)

	c.eventually(func(ctx context.Context) (bool, error) {
		lease, err := kube.CoordinationV1().Leases(driverNamespace).
			Get(ctx, wire.LeaseName(driverName), metav1.GetOptions{})
		return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == pod.Name, nil
	})
	c.installCRDs(0, "")
	node := c.awaitNode(pod)
	c.checkCalls(kube, node, wire.Audience(pod.UID))
	c.checkCalls(kube, c.awaitNode(nodePod), wire.Audience(nodePod.UID))

	stop()
	lease, err := kube.CoordinationV1().Leases(driverNamespace).
		Get(t.Context(), wire.LeaseName(driverName), metav1.GetOptions{})
	c.must(err)
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("pod %s holds the Lease after the end of its sidecar", holder)
	}
	c.must(kube.CoreV1().Pods(driverNamespace).Delete(t.Context(), pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	c.eventually(func(ctx context.Context) (bool, error) {
		_, err := c.nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// createSidecarObjects creates what an operator installs, and a volume.
func (c *cluster) createSidecarObjects(kube kubernetes.Interface) {
	c.Helper()
	for _, name := range []string{driverNamespace, "csi-addons-system"} {
		_, err := kube.CoreV1().Namespaces().Create(c.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		c.must(err)
	}
	for name, namespace := range map[string]string{
		leaderAccount: driverNamespace, nodeAccount: driverNamespace, "stranger": driverNamespace,
		"csi-addons-controller-manager": "csi-addons-system",
	} {
		_, err := kube.CoreV1().ServiceAccounts(namespace).Create(c.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		c.must(err)
	}
	c.createPermissions(kube)
	_, err := kube.CoreV1().Secrets(driverNamespace).Create(c.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Data: map[string][]byte{"user": []byte("1234567")},
	}, metav1.CreateOptions{})
	c.must(err)
	_, err = kube.CoreV1().PersistentVolumes().Create(c.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: "1",
				NodeStageSecretRef: &corev1.SecretReference{Namespace: driverNamespace, Name: "cloud"},
			}},
		},
	}, metav1.CreateOptions{})
	c.must(err)
}

// createPod creates a pod with the name and the identity of a ServiceAccount.
func (c *cluster) createPod(kube kubernetes.Interface, account string) *corev1.Pod {
	c.Helper()
	pod, err := kube.CoreV1().Pods(driverNamespace).Create(c.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Spec: corev1.PodSpec{
			ServiceAccountName: account, Containers: []corev1.Container{{Name: "a", Image: "a"}},
		},
	}, metav1.CreateOptions{})
	c.must(err)
	return pod
}

// startSidecar runs a sidecar with the identity of its ServiceAccount. The returned function stops
// it.
func (c *cluster) startSidecar(
	pod *corev1.Pod, service identity.Capability_Service_Type,
) func() {
	c.Helper()
	var flags sidecar.Flags
	set := pflag.NewFlagSet("sidecar", pflag.ContinueOnError)
	flags.AddTo(set)
	c.must(set.Parse([]string{
		"--node-id=worker-1", "--pod=" + pod.Name, "--namespace=" + driverNamespace,
		"--pod-uid=" + string(pod.UID), "--controller-port=0",
	}))
	settings, err := flags.Load()
	c.must(err)
	config := rest.CopyConfig(c.config)
	config.Impersonate.UserName = "system:serviceaccount:" + driverNamespace + ":" + pod.Name
	kube, err := kubernetes.NewForConfig(config)
	c.must(err)
	nodes, err := dynamic.NewForConfig(config)
	c.must(err)
	s := &sidecar.Sidecar{
		Settings: settings, Driver: c.startDriver(service), Kube: kube, Dynamic: nodes,
		Clock: clock.RealClock{}, Metrics: sidecar.NewMetrics(),
	}
	ctx, cancel := context.WithCancel(c.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.Errorf("the sidecar ended with %v", err)
		}
	})
	c.Cleanup(stop)
	return stop
}

func (c *cluster) startDriver(service identity.Capability_Service_Type) *driver.Client {
	c.Helper()
	socket := filepath.Join(c.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(c.Context(), "unix", socket)
	c.must(err)
	server := grpc.NewServer()
	identity.RegisterIdentityServer(server, reclaimer{service: service})
	reclaimspace.RegisterReclaimSpaceControllerServer(server, reclaimer{})
	reclaimspace.RegisterReclaimSpaceNodeServer(server, reclaimer{})
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	c.Cleanup(server.Stop)
	client, err := driver.New(socket)
	c.must(err)
	c.Cleanup(func() { _ = client.Close() })
	return client
}

func (c *cluster) nodes() dynamic.ResourceInterface {
	return c.dynamic.Resource(v1alpha1.GroupVersion().WithResource("csiaddonsnodes")).
		Namespace(driverNamespace)
}

// awaitNode waits for the CSIAddonsNode of a pod.
func (c *cluster) awaitNode(pod *corev1.Pod) *v1alpha1.CSIAddonsNode {
	c.Helper()
	node := &v1alpha1.CSIAddonsNode{}
	c.eventually(func(ctx context.Context) (bool, error) {
		list, err := c.nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, item := range list.Items {
			if item.GetOwnerReferences()[0].UID == pod.UID {
				return true, runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, node)
			}
		}
		return false, nil
	})
	return node
}

// checkCalls calls the sidecar with tokens that the API server issues.
func (c *cluster) checkCalls(
	kube kubernetes.Interface, node *v1alpha1.CSIAddonsNode, audience string,
) {
	c.Helper()
	endpoint, err := wire.ParseEndpoint(node.Spec.Driver.EndPoint)
	c.must(err)
	pin := node.Annotations[v1alpha1.CertificatePinAnnotation]
	connection, err := grpc.NewClient(
		"passthrough:///"+net.JoinHostPort("127.0.0.1", strconv.FormatUint(uint64(endpoint.Port), 10)),
		grpc.WithTransportCredentials(credentials.NewTLS(wire.PinnedTLS(pin))))
	c.must(err)
	defer connection.Close()
	client := wire.NewReclaimSpaceClient(connection)
	reclaim := client.NodeReclaimSpace
	if strings.HasPrefix(node.Name, leaderAccount) {
		reclaim = client.ControllerReclaimSpace
	}
	for _, caller := range []struct {
		namespace, account, audience string
		code                         codes.Code
	}{
		{"csi-addons-system", "csi-addons-controller-manager", audience, codes.OK},
		{
			"csi-addons-system", "csi-addons-controller-manager", wire.Audience("of-another-pod"),
			codes.Unauthenticated,
		},
		{"csi-addons-system", "csi-addons-controller-manager", "", codes.Unauthenticated},
		{"csi-addons-system", "csi-addons-controller-manager", "other", codes.Unauthenticated},
		{driverNamespace, "stranger", audience, codes.PermissionDenied},
	} {
		token := c.token(kube, caller.namespace, caller.account, caller.audience)
		ctx := metadata.AppendToOutgoingContext(c.Context(), wire.TokenHeader, wire.TokenPrefix+token)
		answer, err := reclaim(ctx, &wire.ReclaimSpaceRequest{PvName: "data"})
		if status.Code(err) != caller.code {
			c.Errorf("a call of %s/%s with a token for %q returns %v, want %v", caller.namespace,
				caller.account, caller.audience, err, caller.code)
		}
		if used := answer.GetPostUsage().GetUsageBytes(); err == nil && used != 7 {
			c.Errorf("the driver received a Secret of %d bytes, want 7", used)
		}
	}
}

// token returns a token of a ServiceAccount for an audience; "" means the API server.
func (c *cluster) token(kube kubernetes.Interface, namespace, account, audience string) string {
	c.Helper()
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	issued, err := kube.CoreV1().ServiceAccounts(namespace).
		CreateToken(c.Context(), account, request, metav1.CreateOptions{})
	c.must(err)
	return issued.Status.Token
}
