package openstack_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// burst sends sixteen requests at the same time, and returns how many connections they opened.
func (s *fixture) burst(requests *shares.Requests) int {
	s.t.Helper()
	s.cloud.ResetLog()
	s.fault(simulator.Fault{
		Mode: simulator.Slow, Service: simulator.Share, Delay: 200 * time.Millisecond,
	})
	var group errgroup.Group
	for range 16 {
		group.Go(func() error {
			_, err := requests.List(s.t.Context(), "cluster", "blue")
			return err
		})
	}
	check(s.t, group.Wait())
	check(s.t, s.cloud.ClearFaults())
	return s.counters().Connections
}

// A load balancer that fails over forgets connections, and sends nothing that would close them.
// Like many, the cloud offers HTTP/2.
func TestSilentConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{TLS: secure})
			if secure {
				s.write("ca.crt", s.ca())
			}
			client := s.connected()
			requests, err := shares.New(t.Context(), client)
			check(t, err)
			opened := s.burst(requests)
			assert.Check(t, opened <= 16, "%d connections for 16 requests", opened)
			assert.Check(t, is.Equal(s.burst(requests), 0), "connections for 16 more")
			s.cloud.(*simulator.Simulator).SilenceConnections()
			failed := 0
			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if _, err := client.ShareTypes(ctx); err != nil {
					failed++
				}
				cancel()
			}
			assert.Check(t, is.Equal(failed, 1), "failed requests")
		})
	}
}
