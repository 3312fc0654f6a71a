package openstack

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

const identityWords = "identity service"

// Login logs in, unless the Client has a session already: then it sends nothing.
func (c *Client) Login(ctx context.Context) error {
	done, err := c.begin(ctx, identityWords)
	if err != nil {
		return err
	}
	defer done()
	return c.connect(ctx)
}

// LoginAs is Login if the Client's Source holds the same as another one; same tells whether it does.
func (c *Client) LoginAs(ctx context.Context, other Source) (same bool, err error) {
	done, err := c.begin(ctx, identityWords)
	if err != nil {
		return false, err
	}
	defer done()
	wanted, err := other.read()
	if err != nil {
		return false, err
	}
	own, err := c.source.read()
	if err != nil || own.fingerprint != wanted.fingerprint {
		return false, nil // what the Client cannot read is not the same
	}
	return true, c.connectTo(ctx, own)
}

// CredentialExpiry returns when the application credential of the login expires. The time is zero if it does not expire, if the
// login uses none, and if the cloud does not tell users about their own.
func (c *Client) CredentialExpiry(ctx context.Context) (time.Time, error) {
	done, err := c.begin(ctx, identityWords)
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	if err := c.connect(ctx); err != nil {
		return time.Time{}, err
	}
	return c.session.credentialExpiry(ctx)
}

func (s *session) credentialExpiry(ctx context.Context) (time.Time, error) {
	user, credential, found := s.applicationCredential()
	if !found {
		return time.Time{}, nil
	}
	authURL := s.access.cloud.AuthInfo.AuthURL
	identity := &gophercloud.ServiceClient{ProviderClient: s.provider, Endpoint: identityURL(authURL) + "/"}
	var answer struct {
		ExpiresAt string `json:"expires_at"`
	}
	err := applicationcredentials.Get(ctx, identity, user, credential).ExtractIntoStructPtr(&answer, "application_credential")
	switch status := statusOf(err); {
	case status == http.StatusForbidden || status == http.StatusNotFound:
		return time.Time{}, nil // a policy of the cloud; the credential works, or there would be no session
	case err != nil:
		return time.Time{}, callError(identityWords, authURL, authURL, err)
	case answer.ExpiresAt == "":
		return time.Time{}, nil
	}
	expiry, err := parseIdentityTime(answer.ExpiresAt)
	if err != nil {
		return time.Time{}, unreachable(identityWords, authURL, errForeign)
	}
	return expiry, nil
}

// applicationCredential returns the IDs of user and application credential of the login. IDs are parts of addresses, so what does
// not look like one is none.
func (s *session) applicationCredential() (user, credential string, found bool) {
	result, ok := s.provider.GetAuthResult().(tokens.CreateResult)
	if !ok || !s.access.cloud.UsesApplicationCredential() {
		return "", "", false
	}
	var token struct {
		User                  struct{ ID string } `json:"user"`
		ApplicationCredential struct{ ID string } `json:"application_credential"`
	}
	if err := result.ExtractInto(&token); err != nil {
		return "", "", false
	}
	user, credential = token.User.ID, token.ApplicationCredential.ID
	if credential == "" { // old releases do not tell
		credential = s.access.cloud.AuthInfo.ApplicationCredentialID
	}
	return user, credential, isID(user) && isID(credential)
}

func isID(text string) bool {
	const longest = 64
	for _, r := range text {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_' {
			return false
		}
	}
	return text != "" && len(text) <= longest
}

// parseIdentityTime reads a time of the identity service, which writes UTC with and without the letter for it.
func parseIdentityTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if parsed, err := time.Parse(layout, text); err == nil {
			return parsed.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("no time: %w", errForeign)
}
