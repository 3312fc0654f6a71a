package openstack_test

import (
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// As in the drivers, a CA of the credentials is the only one that is trusted.
func TestTrustedCABundleIsTrusted(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{TLS: true})
	s.clouds(simulator.Clouds{})
	var trusted []byte
	client := s.clientOf(func() (openstack.Access, error) { return s.access(trusted) })
	wantFragment(t, s.wantFailure(client, openstack.CloudUnreachable), "trustedCA of Proxy/cluster")
	trusted = []byte("# from the network operator\n" + s.ca())
	s.wantTypes(client, "gold", "silver")
	s.counters()
	s.unchanged(client)
	stranger := newSimulated(t, simulator.Config{TLS: true})
	s.write("ca.crt", stranger.ca())
	s.wantFailure(client, openstack.CloudUnreachable)
	s.write("ca.crt", s.ca())
	trusted = []byte("no PEM")
	s.wantTypes(client, "gold", "silver")
}
