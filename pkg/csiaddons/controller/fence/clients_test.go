package fence

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// answer is a sidecar that returns CIDRs or an error.
type answer struct {
	wire.NetworkFenceClient

	cidrs   []string
	failure error
}

func (a answer) GetFenceClients(context.Context, *wire.FenceClientsRequest, ...grpc.CallOption,
) (*wire.FenceClientsResponse, error) {
	return &wire.FenceClientsResponse{
		Clients: []*wire.ClientDetails{{Id: "worker-1", Cidrs: a.cidrs}},
	}, a.failure
}

func TestEventNamesWhyClientsAreMissing(t *testing.T) {
	t.Parallel()
	const first, second = "10.0.0.1/32", "10.0.0.2/32"
	lost := answer{failure: status.Error(codes.Unavailable, "lost")}
	for name, test := range map[string]struct {
		node     string
		answer   answer
		networks string
		reason   string
		status   []string // nil means no status for the class
	}{
		"no failure": {"worker-1", answer{cidrs: []string{second}}, "", "", []string{second}},
		"sidecar":    {"worker-1", lost, "", reasonUnknownClients, []string{first}},
		"Node": {
			"worker-0", answer{cidrs: []string{second}}, "", reasonUnknownClients, []string{first},
		},
		"foreign address": {
			"worker-1", answer{cidrs: []string{second, "10.0.0.9/32"}}, "", reasonBadClients, nil,
		},
		"shared address": {
			"worker-1",
			answer{cidrs: []string{"10.0.0.3/32", second}},
			"", reasonBadClients,
			[]string{second},
		},
		"class": {"worker-1", answer{cidrs: []string{second}}, "x", ReasonInvalidClass, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := sidecarWith("worker-1", first)
			node.Status.NetworkFenceClientStatus[0].NetworkFenceClassName = "shares"
			cluster := newClusterWith(t, node, nodeWith("worker-2", "10.0.0.3"),
				nodeWith("worker-1", "10.0.0.1", "10.0.0.2", "10.0.0.3"))
			recorder := events.NewFakeRecorder(10)
			c := &Clients{Client: cluster, Live: cluster, Events: recorder}
			sidecar := &connection.Sidecar{
				Target: connection.Target{Node: test.node}, NetworkFence: test.answer,
			}
			err := c.refresh(t.Context(), sidecar, node, []v1alpha1.NetworkFenceClass{{
				ObjectMeta: metav1.ObjectMeta{Name: "shares"},
				Spec: v1alpha1.NetworkFenceClassSpec{Parameters: map[string]string{
					v1alpha1.StorageNetworksParameter: test.networks,
				}},
			}})
			close(recorder.Events)
			event := strings.TrimPrefix(<-recorder.Events, "Warning ")
			reason, _, _ := strings.Cut(event, " ")
			if reason != test.reason || (err == nil) != (test.reason == "") {
				t.Errorf("the event is %q, want the reason %q: %v", event, test.reason, err)
			}
			if more, ok := <-recorder.Events; ok {
				t.Errorf("there is a second event: %s", more)
			}
			expectStatus(t, cluster, node, test.status)
			// The addresses stay with the Node if somebody deletes the pod.
			if owned := len(node.OwnerReferences) == 1; owned != (test.status != nil) {
				t.Errorf("the CSIAddonsNode has the owners %+v", node.OwnerReferences)
			}
		})
	}
}

// expectStatus compares the CIDRs of the clients in the status of a CSIAddonsNode.
func expectStatus(t *testing.T, cluster client.Client, node *v1alpha1.CSIAddonsNode, want []string,
) {
	t.Helper()
	found := &v1alpha1.CSIAddonsNode{}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(node), found); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, byClient(found)); diff != "" {
		t.Errorf("CIDRs of clients (-want +got):\n%s", diff)
	}
}
