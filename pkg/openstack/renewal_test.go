package openstack_test

import (
	"net/http"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// A service refuses each token, because no access rule permits the request.
func TestRefusedTokenCausesOneLoginForManyPolls(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	s.fault(simulator.Fault{
		Mode: simulator.Status, Status: http.StatusUnauthorized, Service: simulator.Share,
	})
	s.repeat(client, failure{
		reason: openstack.AuthenticationFailed, fragment: "refused the token (HTTP 401)",
	})
	s.wantCalls(map[string]int{loginCall: 1, typesCall: repetitions + 1})
	q := zoneRequests()["volume"]
	s.wantZones(client, q, []openstack.Zone{{Name: "nova", Available: true}})
	check(t, s.cloud.ClearFaults())
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{"GET " + q.path: 1, typesCall: 1})
}
