package openstack

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// identityVersion is the last path element of identity API URLs.
const identityVersion = "/v3"

// session is a login: a token, which gophercloud renews once on a 401, and the catalog returned
// with the token.
type session struct {
	access   *access
	provider *gophercloud.ProviderClient
	entries  []tokens.CatalogEntry
	// fresh is true if entries were read during the current request.
	fresh bool
	// token is the token that entries belong to.
	token string
	// service is the label of the service that requests are sent to, unless to the identity service.
	service atomic.Pointer[string]
	// refused is the error of the renewal that the identity service refused.
	refused atomic.Pointer[error]
	renewal renewal
}

// userAgent names the operators in the logs of the cloud.
const userAgent = "openstack-csi-operator"

func login(ctx context.Context, a *access) (*session, error) {
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
	s := &session{access: a, provider: provider}
	provider.HTTPClient = httpClient(a, roots, s.observe)
	if err := openstack.Authenticate(ctx, provider, *opts); err != nil {
		provider.HTTPClient.CloseIdleConnections()
		return nil, loginError(authURL, err)
	}
	if provider.Token() == "" {
		provider.HTTPClient.CloseIdleConnections()
		return nil, unreachable(identityService, authURL, errNotOpenStack)
	}
	renew := provider.ReauthFunc
	provider.ReauthFunc = func(ctx context.Context) error { return s.renew(ctx, renew) }
	return s, s.takeCatalog()
}

// renew renews the token. After the identity service has refused this once, the session sends no
// more logins: several requests may run with a token that is no longer accepted. gophercloud renews
// a token once at a time.
func (s *session) renew(ctx context.Context, login func(context.Context) error) error {
	if err := s.refusal(); err != nil {
		return err
	}
	if !s.renewal.mayRepeat(time.Now()) {
		return errNotRenewed
	}
	err := login(ctx)
	if err != nil && refused(err) {
		s.refused.Store(&err)
	}
	if err == nil {
		s.renewal.begin(s.provider.Token(), time.Now())
	}
	return err
}

// refusal returns the error of the renewal that the identity service refused, or nil.
func (s *session) refusal() error {
	if err := s.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// identityURL returns the URL of version 3 of the identity API. It appends a missing version
// instead of reading the cloud's version document: that document could send the password to any
// host, and often names a host behind a proxy.
func identityURL(authURL string) string {
	base := strings.TrimRight(authURL, "/")
	if strings.HasSuffix(base, identityVersion) {
		return base
	}
	return base + identityVersion
}

// takeCatalog keeps the catalog of the last login, which may be one that gophercloud repeated.
func (s *session) takeCatalog() error {
	result, ok := s.provider.GetAuthResult().(tokens.CreateResult)
	if !ok || s.provider.Token() == s.token {
		return nil
	}
	if body, ok := result.Body.(map[string]any); !ok || body["token"] == nil {
		return unreachable(identityService, s.access.cloud.AuthInfo.AuthURL, errNotOpenStack)
	}
	found, err := result.ExtractServiceCatalog()
	if err != nil {
		return unreachable(identityService, s.access.cloud.AuthInfo.AuthURL, err)
	}
	s.entries, s.fresh, s.token = found.Entries, true, s.provider.Token()
	return nil
}

// refreshCatalog reads the catalog without a new login. Keystone returns one page. gophercloud's
// pager would follow links in the answer, to any host and without end.
func (s *session) refreshCatalog(ctx context.Context) error {
	authURL := s.access.cloud.AuthInfo.AuthURL
	identity, err := openstack.NewIdentityV3(s.provider, gophercloud.EndpointOpts{})
	if err != nil {
		return unreachable(identityService, authURL, err)
	}
	var answer struct {
		Catalog *[]tokens.CatalogEntry `json:"catalog"`
	}
	url := identity.ServiceURL("auth", "catalog")
	_, err = identity.Get(ctx, url, &answer, nil) //nolint:bodyclose // gophercloud closes it
	switch {
	case err != nil:
		return catalogError(s.access, err)
	case answer.Catalog == nil:
		return unreachable(identityService, authURL, errNotOpenStack)
	}
	s.entries, s.fresh, s.token = *answer.Catalog, true, s.provider.Token()
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
