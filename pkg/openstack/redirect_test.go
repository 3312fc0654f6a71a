package openstack_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// redirecting returns the URL of a server that answers each request with a redirect to a target,
// and the methods and paths that it receives.
func redirecting(t *testing.T, status int, target string) (address string, seen *[]string) {
	t.Helper()
	seen = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = append(*seen, r.Method+" "+r.URL.Path) // the client sends one request after the other
		w.Header().Set("Location", strings.ReplaceAll(target, "HOST", r.Host))
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, seen
}

// A GET without the credentials would be answered with "401", which reads as a wrong password.
func TestRedirectOfLoginNamesTheURLToWrite(t *testing.T) {
	t.Parallel()
	const write = "write that URL as auth_url into clouds.yaml of the credentials Secret"
	for name, test := range map[string]struct{ target, to, advice string }{
		"https": {
			"https://HOST/v3/auth/tokens", "https://HOST/v3", "Use https: " + write,
		},
		"https, other port": {
			"https://127.0.0.1:1/v3/auth/tokens", "https://127.0.0.1:1/v3", "Use https: " + write,
		},
		"https, without the path": {
			"https://HOST/identity/v3/", "https://HOST/identity/v3", "Use https: " + write,
		},
		"path": {
			"http://HOST/identity/v3/auth/tokens?secret-q=1#secret-f", "http://HOST/identity/v3",
			"Write that URL",
		},
		"user": {
			"https://secret-u:secret-p@HOST/v3/auth/tokens", "https://HOST/v3", "Use https: " + write,
		},
		"host": {
			"https://keystone.example/v3/auth/tokens", "https://keystone.example/v3",
			"If the identity service of your cloud is there, " + write,
		},
	} {
		for _, status := range []int{301, 302, 303} {
			t.Run(fmt.Sprintf("%s %d", name, status), func(t *testing.T) {
				t.Parallel()
				s := newSimulated(t, simulator.Config{})
				front, seen := redirecting(t, status, test.target)
				s.front = front + "/v3"
				s.clouds(simulator.Clouds{})
				host := strings.TrimPrefix(front, "http://")
				message := stable(t, 3, func() string {
					return s.refusedRedirect(s.client(), openstack.InvalidCredentials)
				})
				wantFragment(t, message, "auth_url "+s.front+" redirects to "+
					strings.ReplaceAll(test.to, "HOST", host)+". "+test.advice)
				if len(*seen) != 3 {
					t.Errorf("the server received %q", *seen)
				}
			})
		}
	}
}

// refusedRedirect expects a request to fail, and returns the message, which may contain the host of
// another server.
func (s *fixture) refusedRedirect(client *openstack.Client, want openstack.Reason) string {
	s.t.Helper()
	types, err := client.ShareTypes(s.t.Context())
	if err == nil || len(types) > 0 || openstack.ReasonOf(err) != want {
		s.t.Fatalf("got %d types and %v, want %s", len(types), err, want)
	}
	wantPrintable(s.t, err.Error())
	if tokenish.MatchString(err.Error()) {
		s.t.Errorf("message holds a secret: %v", err)
	}
	return err.Error()
}

// A login page, a page about a maintenance, or a loop: clouds.yaml may be right.
func TestRedirectOfLoginToAnotherPageIsNoAnswerOfKeystone(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"https://HOST/auth/login/?next=/":                     "to https://HOST/auth/login,",
		"https://login.example/dashboard":                     "to https://login.example/dashboard,",
		"https://login.example/sso/7d793037a0760186":          "to https://login.example,",
		"https://login.example/a%0Ab":                         "to https://login.example,",
		"file:///etc/passwd":                                  "to another URL,",
		"https://" + strings.Repeat("long.", 50) + "/v3":      "to another URL,",
		"https://secret-u:secret-p@login.example/auth/login/": "to https://login.example/auth/login,",
		"/v3/auth/tokens?again":                               "to the same URL,",
		"http://HOST/v3/auth/tokens":                          "to the same URL,",
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			front, _ := redirecting(t, http.StatusFound, target)
			s.front = front + "/v3"
			s.clouds(simulator.Clouds{})
			message := s.refusedRedirect(s.client(), openstack.CloudUnreachable)
			want := strings.ReplaceAll(want, "HOST", strings.TrimPrefix(front, "http://"))
			wantFragment(t, message, "it redirects the request "+want)
			wantFragment(t, message, "Check auth_url")
		})
	}
}

// A front end may be corrected without a change of clouds.yaml.
func TestRedirectOfLoginDoesNotBackOff(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	client := s.client()
	s.fault(simulator.Fault{
		Mode: simulator.Foreign, Service: simulator.Identity, Times: 1,
		Answer: &simulator.Answer{
			Status: http.StatusFound, Header: map[string]string{"Location": "https://k.example/v3"},
		},
	})
	s.refusedRedirect(client, openstack.InvalidCredentials)
	s.wantTypes(client, "gold", "silver")
}

// A redirect that appears during a session, whose token has ended.
func TestRedirectOfRenewalNamesTheURLToWrite(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	s.cloud.RevokeTokens()
	s.fault(foreign(simulator.Identity, simulator.Answer{
		Status: http.StatusMovedPermanently,
		Header: map[string]string{"Location": "https://k.example/v3/auth/tokens"},
	}))
	wantFragment(t, s.refusedRedirect(client, openstack.InvalidCredentials),
		"redirects to https://k.example/v3")
	check(t, s.cloud.ClearFaults())
	s.wantTypes(client, "gold", "silver")
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
		"its content would be lost. Check the URL of the shared file system service (Manila) in "+
		"OpenStack's catalog")
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
