package openstack

import (
	"context"
	"crypto/sha256"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/catalog"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// identityVersion ends the addresses of the identity API.
const identityVersion = "/v3"

// session is a login: a token, which gophercloud renews once on a 401, and the catalog that came with it.
type session struct {
	access   *access
	provider *gophercloud.ProviderClient
	entries  []tokens.CatalogEntry
	// fresh says that entries were read during the present question.
	fresh bool
	// token is the one that came with entries.
	token string
}

func login(ctx context.Context, a *access, userAgent string) (*session, error) {
	authURL := a.cloud.AuthInfo.AuthURL
	opts, err := a.cloud.authOptions()
	if err != nil {
		return nil, invalid("clouds.yaml " + err.Error())
	}
	roots, err := a.roots()
	if err != nil {
		return nil, err
	}
	provider, err := openstack.NewClient(identityURL(authURL))
	if err != nil {
		return nil, unreachable(identityService, authURL, err)
	}
	provider.UserAgent.Prepend(userAgent)
	provider.HTTPClient = httpClient(a, roots)
	if err := openstack.Authenticate(ctx, provider, *opts); err != nil {
		provider.HTTPClient.CloseIdleConnections()
		return nil, loginError(authURL, err)
	}
	if provider.Token() == "" {
		provider.HTTPClient.CloseIdleConnections()
		return nil, unreachable(identityService, authURL, errForeign)
	}
	s := &session{access: a, provider: provider}
	return s, s.takeCatalog()
}

// identityURL is the address of version 3 of the identity API. An address without a version gets it here and not from the
// document that the cloud has for that: the document may lead the password to any host, and often to one behind a proxy.
func identityURL(authURL string) string {
	base := strings.TrimRight(authURL, "/")
	if strings.HasSuffix(base, identityVersion) {
		return base
	}
	return base + identityVersion
}

// takeCatalog keeps the catalog of the last login; gophercloud may have logged in again by itself.
func (s *session) takeCatalog() error {
	result, ok := s.provider.GetAuthResult().(tokens.CreateResult)
	if !ok || s.provider.Token() == s.token {
		return nil
	}
	if body, ok := result.Body.(map[string]any); !ok || body["token"] == nil {
		return unreachable("identity service", s.access.cloud.AuthInfo.AuthURL, errForeign)
	}
	found, err := result.ExtractServiceCatalog()
	if err != nil {
		return unreachable(identityService, s.access.cloud.AuthInfo.AuthURL, err)
	}
	s.entries, s.fresh, s.token = found.Entries, true, s.provider.Token()
	return nil
}

// refreshCatalog asks for the catalog without a new login.
func (s *session) refreshCatalog(ctx context.Context) error {
	authURL := s.access.cloud.AuthInfo.AuthURL
	identity, err := openstack.NewIdentityV3(s.provider, gophercloud.EndpointOpts{})
	if err != nil {
		return unreachable(identityService, authURL, err)
	}
	page, err := catalog.List(identity).AllPages(ctx)
	if err != nil {
		return catalogError(authURL, err)
	}
	entries, err := catalog.ExtractServiceCatalog(page)
	if err != nil {
		return unreachable(identityService, authURL, err)
	}
	s.entries, s.fresh, s.token = entries, true, s.provider.Token()
	return nil
}

func (s *session) matches(fingerprint [sha256.Size]byte) bool {
	return s != nil && s.access.fingerprint == fingerprint
}

func (s *session) close() {
	if s != nil {
		s.provider.HTTPClient.CloseIdleConnections()
	}
}
