package openstack_test

import (
	"net/http"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/accessrules"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// The page tells administrators which access rules an application credential needs.
func TestRequestsAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	page, err := accessrules.Read("../../docs/openstack-requests.md")
	check(t, err)
	s := newFixture(t, simulator.Config{})
	for sender, send := range map[string]func(){
		"operators": s.sendAllOfOperators, "CSI-Addons": s.sendAllOfCSIAddons,
	} {
		forbidden, unused := page.Of(sender).Compare(s.callsOf(send))
		for _, call := range forbidden {
			t.Errorf("the page has no row of %s for %s", sender, call)
		}
		for _, rule := range unused {
			if rule.Path == "/" { // only if the URL in the catalog contains no version
				continue
			}
			t.Errorf("%s did not send %s %s of %s", sender, rule.Method, rule.Path, rule.Service)
		}
	}
}

func (s *fixture) callsOf(send func()) map[string]int {
	s.t.Helper()
	s.clouds(simulator.Clouds{Auth: simulator.ApplicationCredential})
	s.counters()
	send()
	return s.counters().Calls
}

func (s *fixture) sendAllOfOperators() {
	s.t.Helper()
	client, ctx := s.client(), s.t.Context()
	check(s.t, client.Check(ctx, openstack.Nova(), openstack.Cinder(), openstack.Manila()))
	_, err := client.VolumeTypes(ctx)
	check(s.t, err)
	_, err = client.VolumeZones(ctx)
	check(s.t, err)
	_, err = client.ComputeZones(ctx)
	check(s.t, err)
	_, err = client.CredentialExpiry(ctx)
	check(s.t, err)
	s.fault(simulator.Fault{
		Mode: simulator.Status, Status: http.StatusNotFound, Service: simulator.Share, Times: 1,
	})
	s.wantFailure(client, openstack.NotOffered) // reads the catalog
	s.wantTypes(client, "gold", "silver")
}

// sendAllOfCSIAddons sends requests about a share that does not exist.
func (s *fixture) sendAllOfCSIAddons() {
	s.t.Helper()
	ctx, client := s.t.Context(), s.client()
	s.cloud.RemoveFromCatalog("sharev2")
	for range 2 { // the second time with a catalog that may be old
		if _, err := client.Shares(ctx); openstack.ReasonOf(err) != openstack.NotOffered {
			s.t.Errorf("without Manila in the catalog: %v", err)
		}
	}
	s.cloud.RestoreToCatalog("sharev2")
	shares, err := client.Shares(ctx)
	check(s.t, err)
	_, err = shares.List(ctx, "a", "b")
	check(s.t, err)
	_, _, err = shares.Find(ctx, shareID)
	check(s.t, err)
	check(s.t, shares.DeleteMetadata(ctx, shareID, "a"))
	check(s.t, shares.Revoke(ctx, shareID, ruleID))
	_, rules := shares.Rules(ctx, shareID)
	for _, err := range []error{
		rules, shares.SetMetadata(ctx, shareID, map[string]string{"a": "b"}),
		shares.Grant(ctx, shareID, openstack.AccessRule{Type: "ip", To: "192.0.2.1", Level: "rw"}),
	} {
		reason := openstack.ReasonOf(err)
		if reason != openstack.NotFound && reason != openstack.Refused {
			s.t.Errorf("got %v, want an answer of Manila about a share that does not exist", err)
		}
	}
}
