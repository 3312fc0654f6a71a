package openstack_test

import (
	"net/http"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

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
		s.clouds(simulator.Clouds{Auth: simulator.ApplicationCredential})
		s.counters()
		send()
		forbidden, unused := page.Of(sender).Compare(s.counters().Calls)
		assert.Check(t, is.Len(forbidden, 0), "the page has no row of %s for these", sender)
		for _, rule := range unused {
			assert.Check(t, rule.Path == "/", // only if the URL in the catalog contains no version
				"%s did not send %s %s of %s", sender, rule.Method, rule.Path, rule.Service)
		}
	}
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
	gone := once(status(http.StatusNotFound))
	gone.Service = simulator.Share
	s.fault(gone)
	s.wantFailure(client, openstack.NotOffered) // reads the catalog
	s.wantTypes(client, "gold", "silver")
}

// sendAllOfCSIAddons sends requests about a share that does not exist.
func (s *fixture) sendAllOfCSIAddons() {
	s.t.Helper()
	ctx, client := s.t.Context(), s.client()
	s.cloud.RemoveFromCatalog("sharev2")
	for range 2 { // the second time with a catalog that may be old
		_, err := client.Shares(ctx)
		assert.Check(s.t, is.Equal(openstack.ReasonOf(err), openstack.NotOffered))
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
		assert.Check(s.t, reason == openstack.NotFound || reason == openstack.Refused,
			"got %v, want an answer of Manila about a share that does not exist", err)
	}
}

// Labels of metrics contain the requests.
func TestEachRequestIsReportedWithItsService(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	var got []string
	client := s.clientOf(func() (openstack.Access, error) {
		access, err := s.access(nil)
		access.Observe = func(r openstack.Request) {
			assert.Check(t, r.Duration > 0, "the request to %s took %v", r.Service, r.Duration)
			got = append(got, r.Service+" "+r.Code)
		}
		return access, err
	})
	failed := status(503)
	failed.Service = simulator.Volume
	for _, test := range []struct {
		list  string
		fault simulator.Fault
		want  []string
	}{
		{"share_types", simulator.Fault{}, []string{"Keystone 201", "Manila 200"}},
		{"volumes", simulator.Fault{}, []string{"Cinder 200"}},
		{"compute zones", simulator.Fault{}, []string{"Nova 200"}},
		{"volumes", failed, []string{"Cinder 503", "Keystone 200"}},
		{
			"share_types", foreign(simulator.Share, simulator.Answer{Status: 599}),
			[]string{"Manila other", "Keystone 200"},
		},
		{"compute zones", mode(simulator.Reset), []string{"Nova error", "Keystone error"}},
	} {
		got = nil
		if test.fault.Mode != "" {
			s.fault(test.fault)
		}
		_, err := listRequests()[test.list].count(client, t.Context())
		assert.Check(t, (err != nil) == (test.fault.Mode != ""), "%s: %v", test.list, err)
		assert.Check(t, is.DeepEqual(test.want, got), "%s with %s", test.list, test.fault.Mode)
		check(t, s.cloud.ClearFaults())
	}
}

// A service answers "401" if no access rule of an application credential permits the request. The
// rule contains * in place of IDs, which differ from one request to the next.
func TestRefusedTokenNamesTheAccessRule(t *testing.T) {
	t.Parallel()
	const rules = "If the application credential in the credentials Secret has access rules, they " +
		"must permit "
	for auth, want := range map[simulator.Auth]string{
		simulator.ApplicationCredential:      rules + "GET /v2/types.",
		simulator.NamedApplicationCredential: rules + "GET /v2/types.",
		simulator.Password:                   "Check the project and its roles in the credentials Secret",
	} {
		t.Run(string(auth), func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			s.clouds(simulator.Clouds{Auth: auth})
			client := s.client()
			shares, err := client.Shares(t.Context())
			check(t, err)
			s.refuse(simulator.Share, http.StatusUnauthorized)
			message := stable(t, 3, func() string {
				return s.wantFailure(client, openstack.AuthenticationFailed)
			})
			wantFragment(t, message, "refused the token (HTTP 401). "+want)
			_, _, found := shares.Find(t.Context(), shareID)
			revoked := shares.Revoke(t.Context(), shareID, ruleID)
			for want, err := range map[string]error{
				"GET /v2/shares/*.": found, "POST /v2/shares/*/action.": revoked,
			} {
				assert.Assert(t, is.Equal(openstack.ReasonOf(err), openstack.AuthenticationFailed))
				assert.Check(t, !strings.Contains(err.Error(), shareID[:8]) &&
					(auth == simulator.Password || strings.Contains(err.Error(), want)), "got %v", err)
			}
		})
	}
}
