package openstack

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// CredentialExpiry returns when the application credential of the login expires. The time is zero
// if the credential does not expire, if the login uses a password, or if the cloud does not let
// users read their own application credentials.
func (c *Client) CredentialExpiry(ctx context.Context) (time.Time, error) {
	release, err := c.begin(ctx, identityService)
	if err != nil {
		return time.Time{}, err
	}
	defer release()
	return c.session.credentialExpiry(ctx)
}

func (s *session) credentialExpiry(ctx context.Context) (time.Time, error) {
	user, credential, found := s.applicationCredential()
	if !found {
		return time.Time{}, nil
	}
	authURL := s.access.AuthURL
	var answer struct {
		ExpiresAt string `json:"expires_at"`
	}
	err := applicationcredentials.Get(ctx, s.identity(), user, credential).
		ExtractIntoStructPtr(&answer, "application_credential")
	switch status := statusOf(err); {
	case status == http.StatusForbidden || status == http.StatusNotFound:
		// A policy of the cloud. The credential works, or there would be no session.
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, callError(identityService, authURL, s.access, err)
	case answer.ExpiresAt == "":
		return time.Time{}, nil
	}
	expiry, err := parseIdentityTime(answer.ExpiresAt)
	if err != nil {
		return time.Time{}, unreachable(identityService, authURL, lacks("time that can be read"))
	}
	return expiry, nil
}

// applicationCredential returns the IDs of the user and of the application credential of the login.
// The IDs become parts of a URL, so anything that is not an ID counts as not found.
func (s *session) applicationCredential() (user, credential string, found bool) {
	result, ok := s.provider.GetAuthResult().(tokens.CreateResult)
	if !ok || !s.access.UsesApplicationCredential() {
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
	if credential == "" { // old releases of OpenStack do not return it
		credential = s.access.ApplicationCredentialID
	}
	return user, credential, IsID(user) && IsID(credential)
}

var validID = regexp.MustCompile(`^[0-9A-Za-z_-]+$`)

// IsID returns whether a text is an ID, which is safe in URLs and messages.
func IsID(text string) bool {
	const limit = 64
	return len(text) <= limit && validID.MatchString(text)
}

// parseIdentityTime parses a time of the identity service, which is UTC with or without a "Z".
func parseIdentityTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if parsed, err := time.Parse(layout, text); err == nil {
			return parsed.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("not a time: %w", ErrNotOpenStack)
}
