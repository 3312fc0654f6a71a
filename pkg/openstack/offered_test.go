package openstack

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
)

// listed matches the regions and interfaces of a message.
var listed = regexp.MustCompile(`(\w+) (?:in (\w+)|without region_name)[,:] `)

// TestEveryListedPlaceOffersTheService is about generated catalogs.
func TestEveryListedPlaceOffersTheService(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"versions":[{"id":"v`+r.URL.Path[2:3]+`.0"}]}`) // of /x3/
	}))
	t.Cleanup(server.Close)
	urls := []string{"/v1", "/v2", "/v3", "/v3/p", "/x2", "/x3", "/ v3"}
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // to be repeatable
	oneOf := func(all ...string) string { return all[random.IntN(len(all))] }
	elsewhere, older := 0, 0
	for range 3000 {
		service := []Service{Manila(), Cinder(), Nova()}[random.IntN(3)]
		options := gophercloud.EndpointOpts{}
		options.ApplyDefaults(service.kind)
		s := &session{provider: &gophercloud.ProviderClient{}, found: map[string]string{}}
		s.access.Login = &clouds.Login{}
		s.access.Region = oneOf("", "one", "two", "three")
		s.access.Interface = oneOf("", "internal", "admin")
		for range random.IntN(5) {
			s.entries = append(s.entries, tokens.CatalogEntry{
				Type: oneOf(options.Types()...), Endpoints: []tokens.Endpoint{{
					Region: oneOf("", "one", "two"), RegionID: oneOf("", "two"),
					Interface: oneOf("public", "internal", "admin", "publicURL"), URL: server.URL + oneOf(urls...),
				}},
			})
		}
		_, err := s.lookup(t.Context(), service)
		if ReasonOf(err) != NotOffered {
			continue
		}
		_, advice, hasPlaces := strings.Cut(err.Error(), ", but with ")
		places := listed.FindAllStringSubmatch(advice, -1)
		assert.Assert(t, hasPlaces == (len(places) > 0), err)
		for _, place := range places {
			s.access.Interface, s.access.Region = place[1], place[2]
			_, fault := s.lookup(t.Context(), service)
			assert.Assert(t, fault == nil, "%v, and there: %v", err, fault)
			clear(s.found)
			elsewhere++
		}
		if strings.Contains(err.Error(), "and the driver needs version") {
			older++
		}
	}
	assert.Assert(t, elsewhere > 100 && older > 100, "%d places, %d older", elsewhere, older)
}
