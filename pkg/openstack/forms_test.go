package openstack_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// forms returns all combinations of parts of an auth_url, each with the URL of the cloud before it.
func forms(host string) []string {
	found := []string{host}
	for _, parts := range [][]string{
		{"/", "/identity", "/identity//v3", "/identityv3"},
		{"", "/v2", "/v2.0", "/v3", "/v3.14", "/v3x"},
		{"", "/auth/tokens"},
		{"", "/", "//"},
		{"", "?", "?a=/v3", "#f", " # text", "/v3"},
	} {
		var longer []string
		for _, form := range found {
			for _, part := range parts {
				longer = append(longer, form+part)
			}
		}
		found = longer
	}
	return found
}

// The drivers log in with the library of the operator, which gets the unchanged URL here.
func TestAuthURLsOfTheDriversAreAccepted(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	host, _, _ := strings.Cut(s.info.AuthURL, "/identity")
	given := s.cloud.Credentials()
	works := func(authURL string) error {
		_, err := gopher.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
			IdentityEndpoint: authURL, UserID: given.UserID, Password: given.Password,
			TenantID: given.ProjectID,
		})
		return err
	}
	accepted, all := 0, forms(host)
	for _, form := range all {
		text := string(s.cloud.CloudsYAML(simulator.Clouds{}))
		s.write("clouds.yaml", strings.ReplaceAll(text, s.info.AuthURL, strconv.Quote(form)))
		driver, operator := works(form), s.client().Check(t.Context())
		if driver == nil {
			accepted++
			assert.Check(t, is.Nil(operator), form)
		}
		if operator == nil {
			access, err := s.access(nil)
			check(t, err)
			assert.Check(t, is.Nil(works(access.AuthURL)), "%s, generated for %s", access.AuthURL, form)
		}
	}
	assert.Check(t, accepted > len(all)/10, "the drivers accept %d of %d forms", accepted, len(all))
}

// The functions of gophercloud for the identity service would take /de for its base.
func TestCatalogIsReadAtTheURLOfTheLogin(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{Regions: []string{simulator.DefaultRegion, "dev2"}})
	s.front = strings.Replace(s.front, "/identity", "/dev2/identity", 1)
	s.clouds(simulator.Clouds{})
	client := s.client()
	s.wantTypes(client, "gold", "silver")
	s.cloud.RemoveFromCatalog("sharev2")
	s.refuse(simulator.Share, http.StatusNotFound)
	s.wantFailure(client, openstack.NotOffered)
	s.cloud.ResetLog()
	wantFragment(t, s.wantFailure(client, openstack.NotOffered), "its catalog has no")
}
