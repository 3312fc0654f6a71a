package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// answer is a sidecar that returns a client or an error.
type answer struct {
	grpc.ClientConnInterface

	id, cidrs string
	failure   error
}

func (a answer) Invoke(_ context.Context, _ string, _, response any, _ ...grpc.CallOption) error {
	response.(*wire.FenceClientsResponse).Clients = []*wire.ClientDetails{
		{Id: a.id, Cidrs: strings.Fields(a.cidrs)},
	}
	return a.failure
}

// The cluster has the Nodes worker-1 and worker-2. The driver reports 172.16.0.2 for the latter.
func TestOnlyAddressesOfTheNodeAreClients(t *testing.T) {
	t.Parallel()
	const previous, networks = "10.0.0.1/32", "172.16.0.0/16, fd01::/64"
	atMost := strings.Join(many("172.16.9.%d/32", maxClientAddresses), " ")
	for name, test := range map[string]struct {
		cidrs, networks, reason, status string // an empty status means none for the class
		// These are worker-1, no failure and verified, unless they are set.
		id, node, driver string
		failure          codes.Code
		security         connection.Security
	}{
		"own":          {cidrs: "10.0.0.2/32 fd00::2/128", status: "10.0.0.2/32 fd00::2/128"},
		"IPv4 in IPv6": {cidrs: "::ffff:10.0.0.2/128", status: "10.0.0.2/32"},
		"storage": {
			cidrs: "172.16.3.4/32 fd01::4/128", networks: networks, status: "172.16.3.4/32 fd01::4/128",
		},
		"no storage": {cidrs: "10.0.0.2/32 172.16.3.4/32", reason: "InvalidFenceClients"},
		"foreign": {
			cidrs: "10.0.0.2/32 10.0.0.6/32", networks: networks, reason: reasonBadClients,
		},
		"address":         {cidrs: "10.0.0.2", reason: reasonBadClients},
		"network":         {cidrs: "10.0.0.0/24", reason: reasonBadClients},
		"all addresses":   {cidrs: "0.0.0.0/0", networks: networks, reason: reasonBadClients},
		"storage network": {cidrs: "172.16.0.0/24", networks: networks, reason: reasonBadClients},
		"foreign ID":      {cidrs: "10.0.0.2/32", id: "worker-2", reason: reasonBadClients},
		"join address of a cluster of Ceph": {
			cidrs: "100.64.0.5/32 fd98::5/128", id: "a815fe8e", security: connection.Unverified,
			status: "100.64.0.5/32 fd98::5/128",
		},
		"reported for the other Node": {
			cidrs: "172.16.0.2/32 10.0.0.2/32", networks: networks, reason: reasonBadClients,
			status: "10.0.0.2/32",
		},
		"reported by another driver": {
			cidrs: "172.16.0.2/32", networks: networks, driver: "other", status: "172.16.0.2/32",
		},
		"as many as a node may have": {
			cidrs: atMost, networks: networks, status: atMost,
		},
		"more than a node may have": {
			cidrs: atMost + " 172.16.9.99/32", networks: networks, reason: reasonBadClients,
		},
		"class":   {cidrs: "10.0.0.2/32", networks: "172.16.0.0/33", reason: ReasonInvalidClass},
		"sidecar": {failure: codes.Unavailable, reason: reasonUnknownClients, status: previous},
		"Node":    {node: "worker-0", reason: reasonUnknownClients, status: previous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := sidecarWith("worker-1", previous)
			known := runtime.NewScheme()
			assert.NilError(t, errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known)))
			cluster := fake.NewClientBuilder().WithScheme(known).
				WithObjects(node, sidecarWith("worker-2", "172.16.0.2/32"),
					nodeWith("worker-1", "worker-1.example.com", "10.0.0.1", "::ffff:10.0.0.2", "fd00::2")).
				WithStatusSubresource(node).WithIndex(node, indexClient, byClient).Build()
			sidecar := &connection.Sidecar{
				Target: connection.Target{
					Driver: test.driver, Node: cmp.Or(test.node, "worker-1"), Security: test.security,
				},
				Connection: answer{
					id: cmp.Or(test.id, "worker-1"), cidrs: test.cidrs,
					failure: status.Error(test.failure, "lost"),
				},
			}
			class := v1alpha1.NetworkFenceClass{ObjectMeta: metav1.ObjectMeta{Name: "shares"}}
			class.Spec.Parameters = map[string]string{v1alpha1.StorageNetworksParameter: test.networks}
			recorder := events.NewFakeRecorder(10)
			c := &Clients{Client: cluster, Events: recorder}
			err := c.refresh(t.Context(), sidecar, node, []v1alpha1.NetworkFenceClass{class})
			close(recorder.Events)
			event := strings.TrimPrefix(<-recorder.Events, "Warning ")
			assert.Check(t, strings.HasPrefix(event, test.reason) && (err == nil) == (event == "") &&
				len(recorder.Events) == 0,
				"the event is %q, and %d more, want the reason %q: %v", event, len(recorder.Events),
				test.reason, err)
			found := &v1alpha1.CSIAddonsNode{}
			assert.NilError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(node), found))
			assert.Check(t, is.Equal(strings.Join(byClient(found), " "), test.status), "clients")
			// The addresses stay with the Node if somebody deletes the pod.
			assert.Check(t, (len(found.OwnerReferences) == 1) ==
				(test.status != "" && test.security == connection.Pinned), "owners %+v", found.OwnerReferences)
			got := found.Annotations[v1alpha1.NetworkFenceClassNamesAnnotation]
			assert.Check(t, is.Equal(got, `["shares"]`), "the annotation with the classes")
		})
	}
}

func TestClassesOfOtherDriversDoNotCount(t *testing.T) {
	t.Parallel()
	known := runtime.NewScheme()
	assert.NilError(t, v1alpha1.AddToScheme(known))
	deleted := class("deleted", manila)
	deleted.Finalizers, deleted.DeletionTimestamp = []string{"x"}, &metav1.Time{Time: time.Unix(1, 0)}
	cluster := fake.NewClientBuilder().WithScheme(known).
		WithObjects(class("b", manila), class("a", manila), class("ceph", ceph), deleted).Build()
	found, err := (&Clients{Client: cluster}).classes(t.Context(), manila)
	assert.NilError(t, err)
	assert.Check(t, len(found) == 2 && found[0].Name == "a" && found[1].Name == "b", "%v", found)
}

// many returns CIDRs of single addresses.
func many(format string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

func nodeWith(name string, addresses ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{
			Type: corev1.NodeInternalIP, Address: address,
		})
	}
	return node
}

// sidecarWith returns the CSIAddonsNode of a node, with clients in its status.
func sidecarWith(node string, cidrs ...string) *v1alpha1.CSIAddonsNode {
	return &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: node},
		Spec:       v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{NodeID: node}},
		Status: v1alpha1.CSIAddonsNodeStatus{
			NetworkFenceClientStatus: []v1alpha1.NetworkFenceClientStatus{{
				NetworkFenceClassName: "shares",
				ClientDetails:         []v1alpha1.ClientDetail{{ID: node, Cidrs: cidrs}},
			}},
		},
	}
}
