package openstack

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/openstack-csi/csi-operator/pkg/openstack/accessrule"
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
	read, err := c.session.credential(ctx)
	if err != nil || read.ExpiresAt == "" {
		return time.Time{}, err
	}
	expiry, err := parseIdentityTime(read.ExpiresAt)
	if err != nil {
		return time.Time{}, unreachable(identityService, c.session.access.AuthURL,
			lacks("time that can be read"))
	}
	return expiry, nil
}

// Rights is what Keystone says that a login may do.
type Rights struct {
	// Project is the ID of the project, and Roles are the names of the roles of the token in it.
	Project string
	Roles   []string
	// Rules are the access rules of the application credential; without one, it has no such limit.
	Rules accessrule.Rules
}

// Rights returns the rights of the login. The rules are missing if the cloud does not let users
// read their own application credentials.
func (c *Client) Rights(ctx context.Context) (Rights, error) {
	release, err := c.begin(ctx, identityService)
	if err != nil {
		return Rights{}, err
	}
	defer release()
	rights := Rights{Project: c.session.access.project}
	result, _ := c.session.provider.GetAuthResult().(tokens.CreateResult)
	roles, err := result.ExtractRoles()
	if err != nil {
		return Rights{}, unreachable(identityService, c.session.access.AuthURL, err)
	}
	for _, role := range roles {
		rights.Roles = append(rights.Roles, role.Name)
	}
	read, err := c.session.credential(ctx)
	rights.Rules = read.Rules
	return rights, err
}

// credential is an application credential as far as anything here reads it.
type credential struct {
	ExpiresAt string           `json:"expires_at"`
	Rules     accessrule.Rules `json:"access_rules"`
}

// credential reads the application credential of the login. It is empty if the login uses a
// password, or if the cloud does not show it.
func (s *session) credential(ctx context.Context) (read credential, err error) {
	user, id, found := s.applicationCredential()
	if !found {
		return credential{}, nil
	}
	err = applicationcredentials.Get(ctx, s.identity(), user, id).
		ExtractIntoStructPtr(&read, "application_credential")
	switch status := statusOf(err); {
	case status == http.StatusForbidden || status == http.StatusNotFound:
		// A policy of the cloud. The credential works, or there would be no session.
		return credential{}, nil
	case err != nil:
		return credential{}, callError(identityService, s.access.AuthURL, s.access, err)
	}
	return read, nil
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
