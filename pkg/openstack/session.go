package openstack

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/catalog"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// callTimeout bounds one HTTP call. Busy clouds have needed more than 30 s to answer a login.
const callTimeout = 120 * time.Second

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
		return nil, invalid("clouds.yaml", err)
	}
	provider, err := openstack.NewClient(authURL)
	if err != nil {
		return nil, unreachable("identity service", authURL, err)
	}
	provider.UserAgent.Prepend(userAgent)
	provider.HTTPClient = httpClient(a)
	if err := openstack.Authenticate(ctx, provider, *opts); err != nil {
		provider.HTTPClient.CloseIdleConnections()
		return nil, loginError(authURL, err)
	}
	if provider.Token() == "" {
		provider.HTTPClient.CloseIdleConnections()
		return nil, unreachable("identity service", authURL, errForeign)
	}
	s := &session{access: a, provider: provider}
	return s, s.takeCatalog()
}

func httpClient(a *access) http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // honours the proxy variables of the environment
	transport.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            a.roots,
		InsecureSkipVerify: a.cloud.Verify != nil && !*a.cloud.Verify, //nolint:gosec // the administrator says `verify: false` in clouds.yaml
	}
	transport.OnProxyConnectResponse = refusedByProxy
	return http.Client{Transport: transport, Timeout: callTimeout}
}

// refusedByProxy marks a proxy's refusal as what it is; net/http would make it an error of nothing but the status text.
func refusedByProxy(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &net.OpError{Op: proxyConnect, Net: "tcp", Err: errors.New(http.StatusText(answer.StatusCode))}
}

// takeCatalog keeps the catalog of the last login; gophercloud may have logged in again by itself.
func (s *session) takeCatalog() error {
	result, ok := s.provider.GetAuthResult().(tokens.CreateResult)
	if !ok || s.provider.Token() == s.token {
		return nil
	}
	found, err := result.ExtractServiceCatalog()
	if err != nil {
		return unreachable("identity service", s.access.cloud.AuthInfo.AuthURL, err)
	}
	s.entries, s.fresh, s.token = found.Entries, true, s.provider.Token()
	return nil
}

// refreshCatalog asks for the catalog without a new login.
func (s *session) refreshCatalog(ctx context.Context) error {
	authURL := s.access.cloud.AuthInfo.AuthURL
	identity, err := openstack.NewIdentityV3(s.provider, gophercloud.EndpointOpts{})
	if err != nil {
		return unreachable("identity service", authURL, err)
	}
	page, err := catalog.List(identity).AllPages(ctx)
	if err != nil {
		return catalogError(authURL, err)
	}
	entries, err := catalog.ExtractServiceCatalog(page)
	if err != nil {
		return unreachable("identity service", authURL, err)
	}
	s.entries, s.fresh, s.token = entries, true, s.provider.Token()
	return nil
}

// endpoint finds a service in the catalog, asking for a new catalog before it says that there is none.
func (s *session) endpoint(ctx context.Context, types ...string) (*gophercloud.ServiceClient, bool, error) {
	if url, ok := s.lookup(types); ok {
		return &gophercloud.ServiceClient{ProviderClient: s.provider, Endpoint: url, Type: types[0]}, true, nil
	}
	if s.fresh {
		return nil, false, nil
	}
	if err := s.refreshCatalog(ctx); err != nil {
		return nil, false, err
	}
	return s.endpoint(ctx, types...)
}

// moved asks for a new catalog when an endpoint does not answer, and returns the service's new one if it has another.
func (s *session) moved(ctx context.Context, from *gophercloud.ServiceClient, types ...string) (*gophercloud.ServiceClient, bool) {
	if s.fresh || s.refreshCatalog(ctx) != nil {
		return nil, false
	}
	to, found, err := s.endpoint(ctx, types...)
	return to, err == nil && found && to.Endpoint != from.Endpoint
}

// lookup does not ask the service which versions it has, as gophercloud's own constructors do: that is a call a poll too much.
func (s *session) lookup(types []string) (string, bool) {
	opts := gophercloud.EndpointOpts{
		Type:         types[0],
		Aliases:      types[1:],
		Region:       s.access.cloud.RegionName,
		Availability: gophercloud.Availability(s.access.cloud.Availability()),
	}
	if opts.Availability == "" {
		opts.Availability = gophercloud.AvailabilityPublic
	}
	url, err := openstack.V3EndpointURL(&tokens.ServiceCatalog{Entries: s.entries}, opts)
	return url, err == nil
}

func (s *session) matches(fingerprint [sha256.Size]byte) bool {
	return s != nil && s.access.fingerprint == fingerprint
}

func (s *session) close() {
	if s != nil {
		s.provider.HTTPClient.CloseIdleConnections()
	}
}
