//go:build integration && bench

package csiaddons

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

const (
	// manyNodes is the number of nodes with a sidecar of each of two drivers.
	manyNodes = 5000
	// memoryLimit is that of the container of the controller, in MiB.
	memoryLimit = 1024
)

// TestConnectionsOfManyNodes measures the connections to the sidecars of two drivers on 5,000
// nodes: memory of the controller, and the time until another controller has connected and ends a
// fence that was created meanwhile.
func TestConnectionsOfManyNodes(t *testing.T) { //nolint:paralleltest // it measures
	s := &scale{world: newWorld(t)}
	for n, d := range []*fakeDriver{
		nodeDriver("cinder"), {name: "manila", services: services{nodeService}},
	} {
		port, pin := s.serveIdentity(d)
		s.each(manyNodes, func(ctx context.Context, i int) error {
			address := fmt.Sprintf("127.%d.%d.%d", n+1, i/250, i%250+1)
			return addSidecarObject(ctx, s.client, fmt.Sprintf("%s-%d", d.name, i),
				server{driver: d.name, address: address, pin: pin, port: port})
		})
	}
	s.addSidecar(s.addPod(driverNamespace, "leader", "worker-1"), fenceDriver("manila"))
	s.addFenceClass("shares", v1alpha1.StorageNetworksParameter, "172.16.0.0/16")
	began := time.Now()
	s.startWithMetrics()
	s.poll("all sidecars are connected", s.allLinked)
	s.recordTime("all sidecars are connected", began)
	s.logRequests("to connect", nil)
	if got := s.measure("connections"); got.rss > memoryLimit {
		t.Errorf("the connections need %.1f MiB, more than %d", got.rss, memoryLimit)
	}

	s.stop()
	s.addFence("lost", v1alpha1.NetworkFenceSpec{
		NetworkFenceClassName: "shares", Cidrs: []string{"10.0.0.1/32"},
	})
	began = time.Now()
	s.startWithMetrics()
	s.poll("the fence has ended", func(ctx context.Context) (bool, error) {
		f := &v1alpha1.NetworkFence{}
		err := s.client.Get(ctx, types.NamespacedName{Name: "lost"}, f)
		return f.Status.Result == v1alpha1.OperationSucceeded, err
	})
	s.recordTime("after a failover the fence has ended", began)
	s.poll("all sidecars are connected", s.allLinked)
	s.recordTime("after a failover all are connected", began)
}

// allLinked returns whether the controller is connected to all sidecars.
func (s *scale) allLinked(ctx context.Context) (bool, error) {
	found, err := s.metrics(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // the controller does not serve metrics yet
	}
	return found["csi_addons_sidecars_connected"] == 2*manyNodes+1, nil
}
