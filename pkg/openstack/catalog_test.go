package openstack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
			writeJSON(w, http.StatusCreated, `{"token":{"catalog":[`+entries(server.URL)+`]}}`)
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

// A catalog may list a service under several types and with several versions of its API.
func TestEndpointHasTheRightVersion(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entries string // BASE is replaced with the URL of the cloud
		want    string // the requested path, "" if Manila is not offered
	}{
		"v1 and v2 under their types": {entry("share", "BASE/v1/p") + "," +
			entry("sharev2", "BASE/v2"), "/v2/types"},
		"v1 and v2 under one type": {
			entry("shared-file-system", "BASE/v1/p", "BASE/v2/p"),
			"/v2/p/types",
		},
		"v2 and v1 under one type": {
			entry("shared-file-system", "BASE/v2/p", "BASE/v1/p"),
			"/v2/p/types",
		},
		"two entries of one type": {entry("share", "BASE/v1/p") + "," +
			entry("share", "BASE/v2/p"), "/v2/p/types"},
		"the old type alone":      {entry("share", "BASE/share/v2"), "/share/v2/types"},
		"the official type alone": {entry("shared-file-system", "BASE/v2"), "/v2/types"},
		"the best type first": {entry("share", "BASE/a/v2") + "," +
			entry("sharev2", "BASE/b/v2"), "/b/v2/types"},
		"version before none": {entry("sharev2", "BASE/share") + "," +
			entry("share", "BASE/v2"), "/v2/types"},
		"no version": {entry("share", "BASE/v1") + "," +
			entry("shared-file-system", "BASE/share"), "/share/types"},
		"a version with a dot": {
			entry("sharev2", "BASE/v1.0", "BASE/v2.1/p"),
			"/v2.1/p/types",
		},
		"version 1 only":                   {entry("share", "BASE/v1/p"), ""},
		"other types":                      {entry("volumev3", "BASE/v3"), ""},
		"one that is malformed, one right": {entry("sharev2", "javascript:v2", "BASE/v2"), "/v2/types"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := catalogFixture(t, func(base string) string {
				return strings.ReplaceAll(test.entries, "BASE",
					base)
			})
			if test.want != "" {
				s.wantTypes(s.client(), test.want)
				return
			}
			s.wantFailure(s.client(), openstack.NotOffered)
		})
	}
}

// The types under which the driver finds Cinder. Under volumev2 it uses no other version than 2.
func TestCinderIsFoundUnderEachType(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entries string // BASE is replaced with the URL of the cloud
		want    string // the address, "" if Cinder is not offered
	}{
		"volumev3 alone":        {entry("volumev3", "BASE/v3/p"), "/v3/p"},
		"block-storage alone":   {entry("block-storage", "BASE/v3/p"), "/v3/p"},
		"block-store alone":     {entry("block-store", "BASE/v3/p"), "/v3/p"},
		"volume alone":          {entry("volume", "BASE/v3/p"), "/v3/p"},
		"volume, no version":    {entry("volume", "BASE/volume"), "/volume"},
		"volumev2 alone":        {entry("volumev2", "BASE/volume"), ""},
		"v1 to v3 under volume": {entry("volume", "BASE/v1/p", "BASE/v2/p", "BASE/v3/p"), "/v3/p"},
		"v2, v3: block-storage": {entry("block-storage", "BASE/v2/p", "BASE/v3/p"), "/v3/p"},
		"v1 of volume, volumev3": {
			entry("volume", "BASE/v1") + "," + entry("volumev3", "BASE/v3"), "/v3",
		},
		"the best type first": {
			entry("volume", "BASE/a/v3") + "," + entry("volumev3", "BASE/b/v3"), "/b/v3",
		},
		"v2 under volume":        {entry("volume", "BASE/v2/p"), ""},
		"v2 under block-storage": {entry("block-storage", "BASE/v2/p"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := catalogFixture(t, func(base string) string {
				return strings.ReplaceAll(test.entries, "BASE", base)
			})
			zones, err := s.client().VolumeZones(t.Context())
			if test.want == "" {
				s.failure(len(zones), err, openstack.NotOffered)
				return
			}
			check(t, err)
			want := []openstack.Zone{{Name: test.want + "/os-availability-zone", Available: true}}
			if diff := cmp.Diff(want, zones); diff != "" {
				t.Errorf("zones (-want +got):\n%s", diff)
			}
		})
	}
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
					writeJSON(w, http.StatusCreated, `{"token":{"catalog":`+catalog+`}}`)
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
			if catalogs != 1 {
				t.Errorf("the catalog was asked %d times, want once", catalogs)
			}
			s.wantTypes(client, "gold")
			if catalogs != 1 {
				t.Errorf("the catalog was asked %d times after the new address was known", catalogs)
			}
		})
	}
}
