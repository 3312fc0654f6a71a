package openstack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// catalogFixture has a cloud with this catalog. The name of its share type, or of its zone, is the
// requested path.
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
		case strings.HasSuffix(r.URL.Path, "/os-availability-zone"):
			writeJSON(w, http.StatusOK, zonesBody(
				fmt.Sprintf(`{"zoneName":%q,"zoneState":{"available":true}}`, r.URL.Path)))
		default:
			writeJSON(w, http.StatusOK, fmt.Sprintf(`{"share_types":[{"name":%q}]}`, r.URL.Path))
		}
	}))
	t.Cleanup(server.Close)
	s.front = server.URL + "/v3"
	s.clouds(simulator.Clouds{NoRegion: true})
	return s
}

// entry returns a catalog entry with these URLs.
func entry(serviceType string, urls ...string) string {
	var endpoints []string
	for _, u := range urls {
		quoted, _ := json.Marshal(u) // never returns an error for a string
		endpoints = append(endpoints, fmt.Sprintf(`{"interface":"public","url":%s}`, quoted))
	}
	return fmt.Sprintf(`{"type":%q,"endpoints":[%s]}`, serviceType, strings.Join(endpoints, ","))
}

func TestMalformedURLInCatalogIsNeitherUsedNorPrinted(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"javascript:alert(1)//v2", "file:///etc/passwd/v2", "ftp://127.0.0.1/v2", "//127.0.0.1/v2", "/v2",
		"", "https://", "http:///v2",
		"http://secret-user:secret-pw@127.0.0.1/v2", "http://127.0.0.1/v2\n\nadmin: yes",
		"http://127.0.0.1/v2\x1b[31m", "http://127.0.0.1/v2?x=y",
		"http://127.0.0.1/v2#x", "http://127.0.0.1/ v2", "http://127.0.0.1/v2/é",
		"unix:///run/secrets/v2", "http://" + strings.Repeat("a", 100_000) + "/v2",
	} {
		t.Run(u[:min(len(u), 30)], func(t *testing.T) {
			t.Parallel()
			s := catalogFixture(t, func(string) string { return entry("sharev2", u) })
			message := s.wantFailure(s.client(), openstack.CloudUnreachable)
			wantFragment(t, message,
				"catalog contains an address of the shared file system service (Manila) "+
					"that is not an http or https URL")
			wantPrintable(t, message)
		})
	}
}

// A load balancer at the old address returns an error; the client refreshes the catalog once.
func TestMovedServiceIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadGateway} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			address, catalogs, broken := "/old/v2", 0, map[string]bool{}
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				catalog := "[" + entry("sharev2", server.URL+address) + "]"
				switch {
				case strings.HasSuffix(r.URL.Path, "/auth/tokens"):
					w.Header().Set("X-Subject-Token", "secret-token")
					writeJSON(w, http.StatusCreated, `{"token":{"project":{"id":"p"},"catalog":`+catalog+`}}`)
				case strings.HasSuffix(r.URL.Path, "/auth/catalog"):
					catalogs++
					writeJSON(w, http.StatusOK, `{"catalog":`+catalog+`}`)
				case broken[r.URL.Path]:
					w.WriteHeader(status)
				default:
					writeJSON(w, http.StatusOK, `{"share_types":[{"name":"gold"}]}`)
				}
			}))
			t.Cleanup(server.Close)
			s := newSimulated(t, simulator.Config{})
			s.front = server.URL + "/v3"
			s.clouds(simulator.Clouds{NoRegion: true})
			client := s.client()
			s.wantTypes(client, "gold")
			address, broken["/old/v2/types"] = "/new/v2", true
			s.wantTypes(client, "gold")
			assert.Check(t, catalogs == 1, "the catalog was asked %d times, want once", catalogs)
			s.wantTypes(client, "gold")
			assert.Check(t, catalogs == 1,
				"the catalog was asked %d times after the new address was known", catalogs)
		})
	}
}
