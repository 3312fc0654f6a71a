package openstack_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/docs"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/accessrule"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/accessrules"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	shareID = "5d0f8a52-0b5c-4a6e-9d7b-3f1c2e4a6b80"
	ruleID  = "9c1de6b4-5f9a-4c53-8f0e-d2b7a1c4e6f3"
)

// The page tells administrators which access rules an application credential needs.
func TestRequestsAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	page, err := accessrule.Parse(docs.Requests, "")
	check(t, err)
	s := newFixture(t, simulator.Config{})
	for sender, send := range map[string]func(){
		"operators": s.sendAllOfOperators, "CSI-Addons": s.sendAllOfCSIAddons,
		"kubectl plugin": s.sendAllOfPlugin,
	} {
		s.clouds(simulator.Clouds{Auth: simulator.ApplicationCredential})
		s.counters()
		send()
		forbidden, unused := accessrules.Compare(page.Of(sender), s.counters().Calls)
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
	_, types := client.VolumeTypes(ctx)
	_, volumeZones := client.VolumeZones(ctx)
	_, computeZones := client.ComputeZones(ctx)
	_, shareZones := client.ShareZones(ctx)
	_, expiry := client.CredentialExpiry(ctx)
	_, shareTypes := client.ShareTypes(ctx)
	_, volumeQuotas := client.VolumeQuotas(ctx)
	_, shareQuotas := client.ShareQuotas(ctx)
	_, volumeErrors := client.VolumesInError(ctx, "error")
	_, shareErrors := client.SharesInError(ctx, "error")
	check(s.t, errors.Join(types, volumeZones, computeZones, shareZones, expiry, shareTypes,
		volumeQuotas, shareQuotas, volumeErrors, shareErrors))
	gone := once(status(http.StatusNotFound))
	gone.Service = simulator.Share
	s.fault(gone)
	s.wantFailure(client, openstack.NotOffered) // reads the catalog
	s.wantTypes(client, "gold", "silver")
}

// sendAllOfPlugin sends requests about volumes, a share and a server that do not exist.
func (s *fixture) sendAllOfPlugin() {
	s.t.Helper()
	client, ctx := s.asked(), s.t.Context()
	_, err := client.Rights(ctx)
	check(s.t, err)
	for _, request := range quotas() {
		_, err := request(client, ctx)
		check(s.t, err)
	}
	_, quotas := client.ShareTypeQuotas(ctx, "gold")
	_, listed := volumesOf(ctx, client)
	_, isVolume, volume := client.Volume(ctx, shareID)
	_, servers := client.Servers(ctx)
	_, isServer, server := client.Server(ctx, shareID)
	_, kept := client.Snapshots(ctx, openstack.Cinder(), shareID)
	_, keptShare := client.Snapshots(ctx, openstack.Manila(), shareID)
	_, said := client.Messages(ctx, openstack.Manila(), map[string]bool{shareID: true})
	check(s.t, errors.Join(quotas, servers, listed, volume, server, kept, keptShare, said))
	requests, err := shares.New(ctx, client)
	check(s.t, err)
	_, err = requests.List(ctx, "a", "b")
	check(s.t, err)
	_, isShare, err := requests.Find(ctx, shareID)
	assert.Check(s.t, err == nil && !isShare && !isVolume && !isServer)
	_, err = requests.Exports(ctx, shareID)
	assert.Check(s.t, is.Equal(openstack.ReasonOf(err), openstack.NotFound))
	_, err = requests.Rules(ctx, shareID)
	assert.Check(s.t, is.Equal(openstack.ReasonOf(err), openstack.Refused))
	err = requests.Grant(ctx, shareID, shares.AccessRule{Type: "ip", To: "10.0.0.0/8", Level: "rw"})
	assert.Check(s.t, is.Equal(openstack.ReasonOf(err), openstack.NotFound))
}

// sendAllOfCSIAddons sends requests about a share that does not exist.
func (s *fixture) sendAllOfCSIAddons() {
	s.t.Helper()
	ctx, client := s.t.Context(), s.client()
	s.cloud.RemoveFromCatalog("sharev2")
	for range 2 { // the second time with a catalog that may be old
		_, err := shares.New(ctx, client)
		assert.Check(s.t, is.Equal(openstack.ReasonOf(err), openstack.NotOffered))
	}
	s.cloud.RestoreToCatalog("sharev2")
	requests, err := shares.New(ctx, client)
	check(s.t, err)
	_, err = requests.List(ctx, "a", "b")
	check(s.t, err)
	_, _, err = requests.Find(ctx, shareID)
	check(s.t, err)
	check(s.t, requests.DeleteMetadata(ctx, shareID, "a"))
	check(s.t, requests.Revoke(ctx, shareID, ruleID))
	_, rules := requests.Rules(ctx, shareID)
	for _, err := range []error{
		rules, requests.SetMetadata(ctx, shareID, map[string]string{"a": "b"}),
		requests.Grant(ctx, shareID, shares.AccessRule{Type: "ip", To: "192.0.2.1", Level: "rw"}),
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
		simulator.ApplicationCredential: rules + "GET /v2/types.",
		simulator.Password:              "Check the project and its roles in the credentials Secret",
	} {
		t.Run(string(auth), func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			s.clouds(simulator.Clouds{Auth: auth})
			client := s.client()
			requests, err := shares.New(t.Context(), client)
			check(t, err)
			s.refuse(simulator.Share, http.StatusUnauthorized)
			message := stable(t, 3, func() string {
				return s.wantFailure(client, openstack.AuthenticationFailed)
			})
			wantFragment(t, message, "refused the token (HTTP 401). "+want)
			_, _, found := requests.Find(t.Context(), shareID)
			revoked := requests.Revoke(t.Context(), shareID, ruleID)
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

// open is the host of clouds behind the proxy. Only the proxy can resolve its name.
const open = "cloud.invalid"

// refusals are the statuses with which the proxy refuses to connect to hosts. With the status 0 it
// does not answer as a proxy.
func refusals() map[string]int {
	return map[string]int{
		"login.invalid": http.StatusProxyAuthRequired, "forbidden.invalid": http.StatusForbidden,
		"gateway.invalid": http.StatusBadGateway, "garbage.invalid": 0,
	}
}

// TestMain sets the proxy variables, because net/http reads them only once per process. Requests to
// the loopback interface and to hosts that cannot be reached use no proxy. That of HTTP is down.
func TestMain(m *testing.M) {
	proxy, down := httptest.NewServer(http.HandlerFunc(connect)), httptest.NewServer(nil)
	down.Close()
	for name, url := range map[string]string{
		"HTTP_PROXY":  down.URL,
		"NO_PROXY":    "keystone.invalid,255.255.255.255",
		"HTTPS_PROXY": strings.Replace(proxy.URL, "://", "://user:secret-proxy@", 1),
	} {
		_ = os.Setenv(name, url)                  // never returns an error for these names
		_ = os.Setenv(strings.ToLower(name), url) // which has precedence for some
	}
	code := m.Run()
	proxy.Close()
	os.Exit(code)
}

func TestProxyOfTheEnvironmentIsUsed(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{TLS: true, AdvertisedHost: open})
	s.write("ca.crt", s.ca())
	s.wantTypes(s.client(), "gold", "silver")
}

func TestProxyThatCannotBeUsedIsExplained(t *testing.T) {
	t.Parallel()
	for front, want := range map[string]string{
		"http://cloud.invalid":      "the connection is refused. Check Proxy/cluster",
		"https://login.invalid":     "it demands another login (HTTP 407). Correct user and password in",
		"https://forbidden.invalid": "it refuses the connection (HTTP 403). Let the proxy connect to",
		"https://gateway.invalid":   "it does not reach the server (HTTP 502). Check the route from the",
		"https://garbage.invalid":   "its answer is not valid HTTP. Check Proxy/cluster",
	} {
		s := newSimulated(t, simulator.Config{})
		s.wantMessage(front, "the proxy cannot be used: "+want)
	}
}

// The server behind the proxy closes the connection.
func TestProxyIsNamedIfTheServerBehindItFails(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(answering(t, ""))
	check(t, err)
	s := newSimulated(t, simulator.Config{})
	s.front = "https://" + net.JoinHostPort(open, u.Port())
	s.clouds(simulator.Clouds{})
	message := s.wantFailure(s.client(), openstack.CloudUnreachable)
	wantFragment(t, message, "without an answer. Check port and scheme (http or https) of "+
		"auth_url, and load balancer, proxy and firewalls in "+
		"front of the cloud. The request goes through the proxy in Proxy/cluster")
}

// connect connects a client of the proxy to a port of the loopback interface.
func connect(w http.ResponseWriter, r *http.Request) {
	host, port, _ := net.SplitHostPort(r.Host) // the requests of the tests have a port
	status, refused := refusals()[host]
	switch {
	case status != 0:
		w.WriteHeader(status)
		return
	case refused:
		if client, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(client, "SSH-2.0-OpenSSH_9.2\r\n")
			_ = client.Close()
		}
		return
	}
	server, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer func() { _ = server.Close() }()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }()
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// Another server on the way to a service may answer 404, too.
func TestOnlyTheServiceSaysThatAnObjectIsGone(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.connected()
	for _, body := range []string{"", `{"a": 1}`, `{"itemNotFound": {"code": 403}}`} {
		other := foreign(simulator.Compute, simulator.Answer{Status: http.StatusNotFound, Body: body})
		s.fault(other)
		_, exists, err := client.Server(t.Context(), shareID)
		assert.Check(t, err != nil && !exists, "%q", body)
		check(t, s.cloud.ClearFaults())
	}
	_, exists, err := client.Server(t.Context(), shareID)
	assert.Check(t, err == nil && !exists, "%v", err)
}
