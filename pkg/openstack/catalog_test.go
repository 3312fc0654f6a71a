package openstack_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

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
			w.WriteHeader(cmp.Or(status, http.StatusNotFound))
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
		"javascript:alert(1)//v2", "file:///etc/passwd/v2", "ftp://127.0.0.1/v2", "//127.0.0.1/v2", "/v2",
		"", "https://", "http:///v2",
		"http://secret-user:secret-pw@127.0.0.1/v2", "http://127.0.0.1/v2\n\nadmin: yes",
		"http://127.0.0.1/v2\x1b[31m", "http://127.0.0.1/v2?x=y",
		"http://127.0.0.1/v2#x", "http://127.0.0.1/ v2", "http://127.0.0.1/v2/é",
		"unix:///run/secrets/v2", "http://" + strings.Repeat("a", 100_000) + "/v2",
	} {
		t.Run(u[:min(len(u), 30)], func(t *testing.T) {
			t.Parallel()
			s := catalogFixture(t, func(string) string { return entry(u) })
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
