package openstack

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// session is a login: a token, which gophercloud renews once on a 401, and the catalog returned
// with the token.
type session struct {
	access      Access
	fingerprint Fingerprint
	provider    *gophercloud.ProviderClient
	entries     []tokens.CatalogEntry
	// found contains the endpoints of services that were found in entries, by label.
	found map[string]string
	// used contains the endpoints of the last requests, by label.
	used map[string]string
	// fresh is true if entries were read during the current request.
	fresh bool
	// token is the token that entries belong to.
	token string
	// service is the label of the service that requests are sent to, unless to the identity service.
	service atomic.Pointer[string]
	// refused is the error of the renewal that the identity service refused.
	refused atomic.Pointer[error]
	renewal atomic.Pointer[renewal]
	// optionals are the refusals of optional requests, by path and query without a status.
	optionals map[string]refusedOption
}

// renewal is the last renewal of a token. If the first answer to the new token is "401" too, the
// token is not the reason: an access rule is missing, or the service cannot verify tokens. Each
// poll would then send one more login, so the next renewal waits for maxDelay. Requests are still
// sent, with the token of the session.
type renewal struct {
	// token is the new token until its first answer.
	token   string
	at      time.Time
	useless bool
}

// errNotRenewed means that the session sent no login after a service refused its token.
var errNotRenewed = errors.New("the token is new")

// userAgent names the operators in the logs of the cloud.
const userAgent = "openstack-csi-operator"

func login(ctx context.Context, a Access) (*session, error) {
	roots, err := a.roots()
	if err != nil {
		return nil, err
	}
	provider, err := openstack.NewClient(a.AuthURL)
	if err != nil {
		return nil, unreachable(identityService, a.AuthURL, err)
	}
	provider.UserAgent.Prepend(userAgent)
	s := &session{
		access: a, fingerprint: a.Fingerprint(), provider: provider,
		used: map[string]string{}, optionals: map[string]refusedOption{},
	}
	provider.HTTPClient = httpClient(a, roots, s.observe)
	if err := s.authenticate(ctx); err != nil {
		provider.HTTPClient.CloseIdleConnections()
		return nil, err
	}
	return s, nil
}

func (s *session) authenticate(ctx context.Context) error {
	authURL := s.access.AuthURL
	if err := openstack.Authenticate(ctx, s.provider, *s.access.AuthOptions()); err != nil {
		return loginError(s.access, err)
	}
	if s.provider.Token() == "" {
		return unreachable(identityService, authURL, lacks("token (header X-Subject-Token)"))
	}
	renew := s.provider.ReauthFunc
	s.provider.ReauthFunc = func(ctx context.Context) error { return s.renew(ctx, renew) }
	if err := s.takeCatalog(); err != nil {
		return err
	}
	result, _ := s.provider.GetAuthResult().(tokens.CreateResult)
	project, err := result.ExtractProject()
	switch {
	case err == nil && project != nil && project.ID != "":
		s.access.project = project.ID
		if user, err := result.ExtractUser(); err == nil && user != nil {
			s.access.user = url.PathEscape(user.ID)
		}
		return nil
	case err == nil && s.access.NoProject != "":
		return invalid(s.access.NoProject)
	}
	return unreachable(identityService, authURL, lacks("project of the token"))
}

// renew renews the token. After the identity service has refused this once, the session sends no
// more logins: several requests may run with a token that is no longer accepted. gophercloud renews
// a token once at a time.
func (s *session) renew(ctx context.Context, login func(context.Context) error) error {
	if err := s.refusal(); err != nil {
		return err
	}
	if last := s.renewal.Load(); last != nil && last.useless && time.Since(last.at) < maxDelay {
		return errNotRenewed
	}
	err := login(ctx)
	if err != nil && refused(err) {
		s.refused.Store(&err)
	}
	if err == nil {
		s.renewal.Store(&renewal{token: s.provider.Token(), at: time.Now()})
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

// takeCatalog keeps the catalog of the last login, which may be one that gophercloud repeated.
func (s *session) takeCatalog() error {
	result, ok := s.provider.GetAuthResult().(tokens.CreateResult)
	if !ok || s.provider.Token() == s.token {
		return nil
	}
	if body, ok := result.Body.(map[string]any); !ok || body["token"] == nil {
		return unreachable(identityService, s.access.AuthURL, lacks("token"))
	}
	found, err := result.ExtractServiceCatalog()
	if err != nil {
		return unreachable(identityService, s.access.AuthURL, err)
	}
	s.setCatalog(found.Entries)
	return nil
}

// refreshCatalog reads the catalog without a new login. Keystone returns one page. gophercloud's
// pager would follow links in the answer, to any host and without end.
func (s *session) refreshCatalog(ctx context.Context) error {
	var answer struct {
		Catalog *[]tokens.CatalogEntry `json:"catalog"`
	}
	identity := s.identity()
	url := identity.ServiceURL("auth", "catalog")
	_, err := identity.Get(ctx, url, &answer, nil) //nolint:bodyclose // gophercloud closes it
	switch {
	case err != nil:
		return catalogError(s.access, err)
	case answer.Catalog == nil:
		return unreachable(identityService, s.access.AuthURL, lacks("catalog"))
	}
	s.setCatalog(*answer.Catalog)
	return nil
}

// identity returns a client of the identity service at the URL of the login. That of gophercloud
// would cut names such as /dev2/identity.
func (s *session) identity() *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{
		ProviderClient: s.provider, Endpoint: gophercloud.NormalizeURL(s.access.AuthURL),
	}
}

func (s *session) setCatalog(entries []tokens.CatalogEntry) {
	s.entries, s.fresh, s.token = entries, true, s.provider.Token()
	s.found = map[string]string{}
}
