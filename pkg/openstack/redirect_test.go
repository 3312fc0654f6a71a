package openstack_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// A GET without the credentials would be answered with "401", which reads as a wrong password. The
// target may also be a login page, or the same server again.
func TestRedirectOfLoginNamesItsTarget(t *testing.T) {
	t.Parallel()
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
		for _, status := range []int{301, 302, 303} {
			t.Run(fmt.Sprintf("%s %d", target, status), func(t *testing.T) {
				t.Parallel()
				s := newSimulated(t, simulator.Config{})
				requests := 0
				server := httptest.NewServer(http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						requests++ // the client sends one request after the other
						w.Header().Set("Location", strings.ReplaceAll(target, "HOST", r.Host))
						w.WriteHeader(status)
					}))
				t.Cleanup(server.Close)
				s.front = server.URL + "/v3"
				s.clouds(simulator.Clouds{})
				client := s.client() // which does not back off: someone may correct the front end
				message := stable(t, 3, func() string { return s.refusedRedirect(client) })
				host := strings.TrimPrefix(server.URL, "http://")
				wantFragment(t, message, "it redirects the request to "+
					strings.ReplaceAll(want, "HOST", host)+", where its content would be lost. If the "+
					"service of your cloud is there, write that URL as auth_url.")
				assert.Check(t, requests == 3, "the server received %d requests", requests)
			})
		}
	}
}

// refusedRedirect expects a request to fail, and returns the message, which may contain the host of
// another server.
func (s *fixture) refusedRedirect(client *openstack.Client) string {
	s.t.Helper()
	types, err := client.ShareTypes(s.t.Context())
	if err == nil || len(types) > 0 || openstack.ReasonOf(err) != openstack.CloudUnreachable {
		s.t.Fatalf("got %d types and %v", len(types), err)
	}
	wantPrintable(s.t, err.Error())
	if tokenish.MatchString(err.Error()) {
		s.t.Errorf("message holds a secret: %v", err)
	}
	return err.Error()
}

// The catalog contains the URLs of services, and a Reason of theirs does not blame clouds.yaml.
func TestRedirectOfServiceNamesTheCatalog(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	shares, err := s.client().Shares(t.Context())
	check(t, err)
	s.fault(foreign(simulator.Share, simulator.Answer{
		Status: http.StatusMovedPermanently,
		Header: map[string]string{"Location": "https://manila.example/v2/shares"},
	}))
	err = shares.SetMetadata(t.Context(), "a-share", map[string]string{"a": "b"})
	if openstack.ReasonOf(err) != openstack.CloudUnreachable {
		t.Fatalf("reason %s: %v", openstack.ReasonOf(err), err)
	}
	wantFragment(t, err.Error(), "redirects the request to https://manila.example/v2/shares, where "+
		"its content would be lost. If the service of your cloud is there, write that URL as the URL of "+
		"the shared file system service (Manila) in OpenStack's catalog")
}

func TestRedirectThatKeepsTheMethodOfLoginIsFollowed(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	for _, status := range []int{307, 308} {
		s.clouds(simulator.Clouds{})
		redirect := foreign(simulator.Identity, simulator.Answer{
			Status: status, Header: map[string]string{"Location": "/identity/v3/auth/tokens?again"},
		})
		redirect.Times = 1
		s.fault(redirect)
		s.wantTypes(s.client(), "gold", "silver")
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
