package openstack_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// catalogFixture has a cloud with this catalog. The name of its share type is the requested path.
func catalogFixture(t *testing.T, entries func(base string) string) *fixture {
	t.Helper()
	s := newSimulated(t, simulator.Config{})
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/auth/tokens"):
			w.Header().Set("X-Subject-Token", "secret-token")
			writeJSON(w, http.StatusCreated,
				`{"token":{"project":{"id":"p"},"catalog":[`+entries(server.URL)+`]}}`)
		case strings.HasSuffix(r.URL.Path, "/auth/catalog"):
			writeJSON(w, http.StatusOK, `{"catalog":[`+entries(server.URL)+`]}`)
		case strings.HasPrefix(r.URL.Path, "/new/"):
			writeJSON(w, http.StatusOK, fmt.Sprintf(`{"share_types":[{"name":%q}]}`, r.URL.Path))
		default: // an address that moved
			status, _ := strconv.Atoi(strings.Split(r.URL.Path, "/")[1]) // none of other addresses
			writeJSON(w, cmp.Or(status, http.StatusNotFound),
				`{"badRequest":{"code":400,"message":"Malformed <b>request</b> url 4711-0815"}}`)
		}
	}))
	t.Cleanup(server.Close)
	s.front = server.URL + "/v3"
	s.clouds(simulator.Clouds{NoRegion: true})
	return s
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// entry returns a catalog entry of Manila.
func entry(url string) string {
	quoted, _ := json.Marshal(url) // never returns an error for a string
	return fmt.Sprintf(`{"type":"sharev2","endpoints":[{"interface":"public","url":%s}]}`, quoted)
}

func TestMalformedURLInCatalogIsNeitherUsedNorPrinted(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"javascript:alert(1)//v2", "file:///etc/passwd/v2", "ftp://127.0.0.1/v2", "//127.0.0.1/v2",
		"/v2", "", "https://", "http:///v2", "http://secret-user:secret-pw@127.0.0.1/v2",
		"http://127.0.0.1/v2\n\nadmin: yes", "http://127.0.0.1/v2\x1b[31m", "http://127.0.0.1/v2?x=y",
		"http://127.0.0.1/v2#x", "http://127.0.0.1/ v2", "http://127.0.0.1/v2/é",
		"unix:///run/secrets/v2", "http://127.0.0.1/v2/%(tenant_id)s",
		"http://" + strings.Repeat("a", 100_000) + "/v2",
	} {
		t.Run(u[:min(len(u), 30)], func(t *testing.T) {
			t.Parallel()
			s := catalogFixture(t, func(string) string { return entry(u) })
			wantFragment(t, s.wantFailure(s.client(), openstack.CloudUnreachable), "catalog contains an "+
				"address of the shared file system service (Manila) that is not an http or https URL")
		})
	}
}

// Cinder and Manila compare the project in the URL with that of the token.
func TestEndpointOfAnotherProjectIsNamed(t *testing.T) {
	t.Parallel()
	const other = ". This URL of the catalog contains another project than that of the login, p. Ask"
	for path, want := range map[string]string{
		"/400/v2/0f3dbe8a": "returned HTTP 400 at HOST/400/v2/0f3dbe8a" + other,
		"/404/v2/AUTH_q":   "returned HTTP 404 at HOST/404/v2/AUTH_q" + other,
		"/400/v2/p":        "it returned HTTP 400, which the operator does not expect",
		"/404/v2/AUTH_p":   "but nothing is served there (HTTP 404)",
		"/403/v2":          "a role of its user or application credential is missing (HTTP 403)",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			base := ""
			s := catalogFixture(t, func(at string) string { base = at; return entry(at + path) })
			_, err := s.client().ShareTypes(t.Context())
			assert.Assert(t, err != nil)
			wantFragment(t, strings.ReplaceAll(err.Error(), base, "HOST"), want)
			wantFragment(t, err.Error(), `. It says "Malformed request url ..."`)
		})
	}
}

// A load balancer at the old address returns an error; the client refreshes the catalog once.
func TestMovedServiceIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	for _, old := range []string{"/403/v2", "/404/v2", "/502/v2"} {
		address, catalogs := old, 0
		s := catalogFixture(t, func(base string) string {
			catalogs++
			return entry(base + address)
		})
		client := s.client()
		_, err := client.ShareTypes(t.Context()) // the catalog of the login is new
		assert.Check(t, err != nil && catalogs == 1, "got %v and %d catalogs", err, catalogs)
		address = "/new/v2"
		for range 2 {
			s.wantTypes(client, "/new/v2/types")
		}
		assert.Check(t, catalogs == 2, "got %d catalogs from %s to %s", catalogs, old, address)
	}
}

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

func TestRedirectOfLoginToNoURLIsExplained(t *testing.T) {
	t.Parallel()
	for _, status := range []int{302, 307} {
		s := newSimulated(t, simulator.Config{})
		s.fault(redirect(simulator.Identity, status, "https://secret-host/%zz"))
		message := stable(t, 3, func() string { return s.refusedRedirect(s.client()) })
		wantFragment(t, message, "it redirects the request to an address that is not a URL. Check")
	}
}

// refusedRedirect expects a request to fail, and returns the message, which may name another host.
func (s *fixture) refusedRedirect(client *openstack.Client) string {
	s.t.Helper()
	types, err := client.ShareTypes(s.t.Context())
	assert.Assert(s.t, err != nil && len(types) == 0, "got %d types and %v", len(types), err)
	assert.Assert(s.t, is.Equal(openstack.ReasonOf(err), openstack.CloudUnreachable))
	wantPrintable(s.t, err.Error())
	assert.Check(s.t, !tokenish.MatchString(err.Error()), "message holds a secret: %v", err)
	return err.Error()
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
	wantFragment(t, s.wantFailure(s.client(), openstack.AuthenticationFailed), "/a%0Ab%1B/v3")
}
