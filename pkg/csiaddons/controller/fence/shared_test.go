package fence

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

func TestAddressOfAnotherNodeIsNoClient(t *testing.T) {
	t.Parallel()
	const own, ofBoth, reported, unknown = "10.0.0.1/32", "10.0.0.2/32", "172.16.0.2/32", "fd00::9/128"
	for _, test := range []struct {
		cidr, other string
	}{{own, ""}, {ofBoth, "worker-2"}, {reported, "worker-2"}, {unknown, ""}} {
		c := &Clients{Client: newClusterWith(t,
			nodeWith("worker-1", "10.0.0.1", "10.0.0.2"),
			nodeWith("worker-2", "worker-2.example.com", "::ffff:10.0.0.2"),
			sidecarWith("worker-1", own), sidecarWith("worker-2", reported),
		)}
		sidecar := &connection.Sidecar{Target: connection.Target{
			Node: "worker-1", Pod: types.NamespacedName{Namespace: "csi", Name: "pod-1"},
		}}
		clients, err := c.unshared(t.Context(), sidecar, []v1alpha1.ClientDetail{
			{ID: "worker-1", Cidrs: []string{test.cidr, own}},
		})
		want := []string{test.cidr, own}
		if test.other != "" {
			want = []string{own}
		}
		if diff := cmp.Diff([]v1alpha1.ClientDetail{{ID: "worker-1", Cidrs: want}}, clients); diff != "" {
			t.Errorf("clients of worker-1 without %s of %q (-want +got):\n%s", test.cidr, test.other, diff)
		}
		switch {
		case test.other == "" && err != nil:
			t.Errorf("the client %s of worker-1 is refused: %v", test.cidr, err)
		case test.other != "" && (err == nil || !strings.Contains(err.Error(), test.other)):
			t.Errorf("the client %s of %s counts as one of worker-1: %v", test.cidr, test.other, err)
		}
	}
}

func newClusterWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.CSIAddonsNode{}).
		WithIndex(&corev1.Node{}, indexAddress, byAddress).
		WithIndex(&v1alpha1.CSIAddonsNode{}, indexClient, byClient).Build()
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

func sidecarWith(node string, cidrs ...string) *v1alpha1.CSIAddonsNode {
	return &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: node},
		Spec:       v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{NodeID: node}},
		Status: v1alpha1.CSIAddonsNodeStatus{
			NetworkFenceClientStatus: []v1alpha1.NetworkFenceClientStatus{
				{ClientDetails: []v1alpha1.ClientDetail{{ID: node, Cidrs: cidrs}}},
			},
		},
	}
}
