package simulator

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	keystoneTime      = "2006-01-02T15:04:05.000000Z"
	textAuthenticate  = "The request you have made requires authentication."
	textScopedAppCred = "Error authenticating with application credential: " +
		"Application credentials cannot request a scope."
	textNoToken = "Could not find token."
)

// token is a token that was issued.
type token struct {
	id      string
	audit   string
	methods []string
	scoped  bool
	issued  time.Time
	expires time.Time
}

// keystone is the state of the identity service.
type keystone struct {
	now func() time.Time

	mu          sync.Mutex
	credentials Credentials
	ttl         time.Duration
	tokens      map[string]token
	removed     map[string]bool // catalog entries, by service type
}

func newKeystone(config Config) *keystone {
	return &keystone{
		now: config.Now, credentials: config.Credentials, ttl: config.TokenTTL,
		tokens: map[string]token{}, removed: map[string]bool{},
	}
}

// identity answers a call to Keystone.
func (s *Simulator) identity(c *call) reply {
	switch c.path {
	case "/", "/v3":
		return s.identityVersions(c)
	case "/v3/auth/tokens":
		return s.tokens(c)
	case "/v3/auth/catalog":
		return s.authCatalog(c)
	}
	user, id, ok := strings.Cut(strings.TrimPrefix(c.path, "/v3/users/"), "/application_credentials/")
	if ok {
		return s.applicationCredential(c, user, id)
	}
	return s.failure(c, http.StatusNotFound, "The resource could not be found.")
}

// identityVersions answers the version documents; the one of the root is a choice of one.
func (s *Simulator) identityVersions(c *call) reply {
	version := map[string]any{
		"id":      "v3.14",
		"status":  "stable",
		"updated": "2020-04-07T00:00:00Z",
		"links": []any{map[string]string{
			"rel": "self", "href": s.endpoint(Identity, c.region) + "/v3/",
		}},
		"media-types": []any{map[string]string{
			"base": "application/json", "type": "application/vnd.openstack.identity-v3+json",
		}},
	}
	if c.path == "/v3" {
		return document(http.StatusOK, map[string]any{"version": version})
	}
	return document(http.StatusMultipleChoices,
		map[string]any{"versions": map[string]any{"values": []any{version}}})
}

// authCatalog shows the catalog to the holder of a token.
func (s *Simulator) authCatalog(c *call) reply {
	if !s.keystone.valid(c.header.Get(headerAuthToken)) {
		return s.failure(c, http.StatusUnauthorized, textAuthenticate)
	}
	return document(http.StatusOK, map[string]any{"catalog": s.catalog(c), "links": map[string]any{}})
}

// applicationCredential shows an application credential to its user.
func (s *Simulator) applicationCredential(c *call, user, id string) reply {
	owner := s.keystone.current()
	switch {
	case !s.keystone.valid(c.header.Get(headerAuthToken)):
		return s.failure(c, http.StatusUnauthorized, textAuthenticate)
	case user != owner.UserID:
		return s.failure(c, http.StatusForbidden,
			"You are not authorized to perform the requested action: "+
				"identity:get_application_credential.")
	case id != owner.ApplicationCredentialID:
		return s.failure(c, http.StatusNotFound, "Could not find Application Credential: "+id+".")
	}
	var expires any
	if expiry := owner.ApplicationCredentialExpiry; !expiry.IsZero() {
		expires = expiry.UTC().Format("2006-01-02T15:04:05.000000")
	}
	return document(http.StatusOK, map[string]any{"application_credential": map[string]any{
		"id": id, "name": owner.ApplicationCredentialName, "description": nil,
		"project_id": owner.ProjectID, "expires_at": expires,
		"unrestricted": false, "system": nil, "roles": []any{memberRole()},
		"links": map[string]string{"self": s.endpoint(Identity, c.region) + c.path},
	}})
}

func memberRole() map[string]any {
	return map[string]any{"id": "9fe2ff9ee4384b1894a90878d3e92bab", "name": "member", "domain_id": nil}
}

// tokens issues, shows and revokes tokens.
func (s *Simulator) tokens(c *call) reply {
	if c.method == http.MethodPost {
		return s.login(c)
	}
	if !s.keystone.valid(c.header.Get(headerAuthToken)) {
		return s.failure(c, http.StatusUnauthorized, textAuthenticate)
	}
	subject, ok := s.keystone.find(c.header.Get(headerSubjectToken))
	if !ok {
		return s.failure(c, http.StatusNotFound, textNoToken)
	}
	switch c.method {
	case http.MethodGet, http.MethodHead:
		return s.tokenReply(c, http.StatusOK, subject)
	case http.MethodDelete:
		s.journal.revoked(s.keystone.revoke(subject.id))
		return reply{status: http.StatusNoContent}
	}
	return s.failure(c, http.StatusMethodNotAllowed,
		"The method is not allowed for the requested URL.")
}

// login answers a request for a token.
func (s *Simulator) login(c *call) reply {
	var request authRequest
	if err := json.Unmarshal(c.body, &request); err != nil || len(request.Auth.Identity.Methods) == 0 {
		return s.failure(c, http.StatusBadRequest,
			"Expecting to find auth.identity.methods in the JSON body.")
	}
	issued, refusal := s.keystone.issue(request)
	if refusal != "" {
		return s.failure(c, http.StatusUnauthorized, refusal)
	}
	s.journal.loggedIn()
	return s.tokenReply(c, http.StatusCreated, issued)
}

// tokenReply describes a token.
func (s *Simulator) tokenReply(c *call, status int, t token) reply {
	owner := s.keystone.current()
	domain := map[string]string{"id": owner.DomainID, "name": owner.DomainName}
	content := map[string]any{
		"methods":    t.methods,
		"audit_ids":  []string{t.audit},
		"issued_at":  t.issued.UTC().Format(keystoneTime),
		"expires_at": t.expires.UTC().Format(keystoneTime),
		"user": map[string]any{
			"id": owner.UserID, "name": owner.UserName, "domain": domain, "password_expires_at": nil,
		},
	}
	if slices.Contains(t.methods, "application_credential") {
		content["application_credential"] = map[string]any{
			"id": owner.ApplicationCredentialID, "name": owner.ApplicationCredentialName, "restricted": true,
		}
	}
	if t.scoped {
		content["is_domain"] = false
		content["project"] = map[string]any{
			"id": owner.ProjectID, "name": owner.ProjectName, "domain": domain,
		}
		content["roles"] = []any{map[string]string{
			"id": "9fe2ff9ee4384b1894a90878d3e92bab", "name": "member",
		}}
		content["catalog"] = s.catalog(c)
	}
	answer := document(status, map[string]any{"token": content})
	answer.header[headerSubjectToken] = []string{t.id}
	answer.header["Vary"] = []string{headerAuthToken}
	return answer
}

// issue checks a request for a token and returns the token, or the reason for a refusal.
func (k *keystone) issue(request authRequest) (token, string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	identity, scope := request.Auth.Identity, request.Auth.Scope
	now := k.now()
	issued := token{
		id: newTokenID(), audit: newTokenID()[7:29], methods: identity.Methods,
		scoped: scope != nil, issued: now, expires: now.Add(k.ttl),
	}
	for _, method := range identity.Methods {
		switch {
		case method == "token":
			parent, ok := k.lookup(identity.Token.ID)
			if !ok {
				return token{}, textAuthenticate
			}
			issued.expires = parent.expires // a token does not prolong itself
		case !k.credentials.accepts(method, identity):
			return token{}, textAuthenticate
		case method == "application_credential" && scope != nil:
			return token{}, textScopedAppCred
		case method == "application_credential":
			issued.scoped = true
		}
	}
	if scope != nil && !k.credentials.covers(scope) {
		return token{}, textAuthenticate
	}
	k.forgetExpired(now)
	k.tokens[issued.id] = issued
	return issued, ""
}

// forgetExpired keeps the list of tokens short. The caller holds the lock.
func (k *keystone) forgetExpired(now time.Time) {
	for id, t := range k.tokens {
		if !now.Before(t.expires) {
			delete(k.tokens, id)
		}
	}
}

// lookup finds a token that is valid now. The caller holds the lock.
func (k *keystone) lookup(id string) (token, bool) {
	found, ok := k.tokens[id]
	return found, ok && k.now().Before(found.expires)
}

// find returns a token that is valid now.
func (k *keystone) find(id string) (token, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lookup(id)
}

// valid returns whether a call with the token is authorized.
func (k *keystone) valid(id string) bool {
	_, ok := k.find(id)
	return ok
}

// revoke ends the given tokens, or all, and returns how many were in force.
func (k *keystone) revoke(ids ...string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetExpired(k.now())
	before := len(k.tokens)
	if len(ids) == 0 {
		clear(k.tokens)
	}
	for _, id := range ids {
		delete(k.tokens, id)
	}
	return before - len(k.tokens)
}

// current returns the accepted credentials.
func (k *keystone) current() Credentials {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.credentials
}

// rotate changes the accepted credentials and returns them.
func (k *keystone) rotate(r Rotation) Credentials {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.credentials = k.credentials.rotated(r)
	return k.credentials
}

// setTTL changes the life of the tokens issued from now on.
func (k *keystone) setTTL(ttl time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ttl = ttl
}

// newTokenID returns an ID that looks like a Fernet token.
func newTokenID() string {
	var b [96]byte
	_, _ = rand.Read(b[:]) // never fails
	return "gAAAAAB" + base64.RawURLEncoding.EncodeToString(b[:])
}
