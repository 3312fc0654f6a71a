package openstack_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// redirect returns the fault of a service that redirects requests.
func redirect(service simulator.Service, status int, to string) simulator.Fault {
	header := map[string]string{"Location": to}
	return foreign(service, simulator.Answer{Status: status, Header: header})
}

// A GET without the credentials would be answered with "401", which reads as a wrong password. The
// target may also be a login page, or the same server again.
func TestRedirectOfLoginNamesItsTarget(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	own := strings.Split(s.front, "/")[2]
	client := s.client() // which does not back off: someone may correct the front end
	for target, want := range map[string]string{
		"https://HOST/v3/auth/tokens":                        "https://HOST/v3",
		"https://HOST/identity/v3/":                          "https://HOST/identity/v3",
		"http://HOST/v3/auth/tokens?secret-q=1#secret-f":     "http://HOST/v3",
		"https://secret-u:secret-p@k.example/v3/auth/tokens": "https://k.example/v3",
		"https://login.example/auth/login/?next=/":           "https://login.example/auth/login",
		"https://login.example/sso/7d793037a0760186":         "https://login.example",
		"https://login.example/a%0Ab":                        "https://login.example",
		"file:///etc/passwd":                                 "another URL",
		"https://" + strings.Repeat("long.", 50) + "/v3":     "another URL",
	} {
		target, want = strings.Replace(target, "HOST", own, 1), strings.Replace(want, "HOST", own, 1)
		s.fault(redirect(simulator.Identity, 302, target))
		message := stable(t, 3, func() string { return s.refusedRedirect(client) })
		wantFragment(t, message, "it redirects the request to "+want+", where its content would be "+
			"lost. If the service of your cloud is there, write that URL as auth_url.")
		s.wantCalls(map[string]int{loginCall: 3})
		check(t, s.cloud.ClearFaults())
	}
}

// refusedRedirect expects a request to fail, and returns the message, which may contain the host of
// another server.
func (s *fixture) refusedRedirect(client *openstack.Client) string {
	s.t.Helper()
	types, err := client.ShareTypes(s.t.Context())
	assert.Assert(s.t, err != nil && len(types) == 0, "got %d types and %v", len(types), err)
	assert.Assert(s.t, is.Equal(openstack.ReasonOf(err), openstack.CloudUnreachable))
	wantPrintable(s.t, err.Error())
	assert.Check(s.t, !tokenish.MatchString(err.Error()), "message holds a secret: %v", err)
	return err.Error()
}

// The catalog contains the URLs of services, and a Reason of theirs does not blame clouds.yaml.
func TestRedirectOfServiceNamesTheCatalog(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	shares := s.shares()
	s.fault(redirect(simulator.Share, 301, "https://manila.example/v2/shares"))
	err := shares.SetMetadata(t.Context(), "a-share", map[string]string{"a": "b"})
	assert.Assert(t, is.Equal(openstack.ReasonOf(err), openstack.CloudUnreachable))
	wantFragment(t, err.Error(), "redirects the request to https://manila.example/v2/shares, where "+
		"its content would be lost. If the service of your cloud is there, write that URL as the URL of "+
		"the shared file system service (Manila) in OpenStack's catalog")
}

// Neither token nor password is sent to the target of the redirect.
func TestRedirectToAnotherServerIsRefused(t *testing.T) {
	t.Parallel()
	var stolen atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		stolen.Add(1)
	}))
	t.Cleanup(thief.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, service := range []simulator.Service{simulator.Identity, simulator.Share} {
			s := newSimulated(t, simulator.Config{})
			s.fault(redirect(service, status, thief.URL))
			wantFragment(t, s.refusedRedirect(s.client()), "it redirects the request to")
		}
	}
	assert.Check(t, is.Equal(stolen.Load(), int32(0)), "requests were sent to another server")
}

func TestRedirectWithinTheServerIsFollowed(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	for _, fault := range []simulator.Fault{
		redirect(simulator.Share, 301, "/share/v2/types"),
		redirect(simulator.Identity, 307, "/identity/v3/auth/tokens?again"),
		redirect(simulator.Identity, 308, "/identity/v3/auth/tokens?again"),
	} {
		s.fault(once(fault))
		s.wantTypes(s.client(), "gold", "silver")
	}
}

// A cloud could return pages without end, or have the token sent to another host.
func TestLinksInTheCatalogAreIgnored(t *testing.T) {
	t.Parallel()
	s, client, _ := connectedWithoutManila(t, newSimulated)
	for _, next := range []string{s.front + "/auth/catalog", "http://192.0.2.1/"} {
		fault := foreign(simulator.Identity, simulator.Answer{
			Body: `{"catalog":[{"type":"image","endpoints":[]}],"links":{"next":"` + next + `"}}`,
		})
		fault.Times = 3
		s.fault(fault)
		s.wantFailure(client, openstack.NotOffered)
		s.wantCalls(map[string]int{catalogCall: 1})
		check(t, s.cloud.ClearFaults())
	}
}

func TestEscapesInURLsStayEscapedInMessages(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	s.front = strings.Replace(s.front, "/identity", "/a%0Ab%1B", 1)
	s.clouds(simulator.Clouds{})
	message := s.wantFailure(s.client(), openstack.AuthenticationFailed)
	wantPrintable(t, message)
	wantFragment(t, message, "/a%0Ab%1B/v3")
}
