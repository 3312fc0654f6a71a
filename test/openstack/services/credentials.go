package services

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// CloudsYAML returns a clouds.yaml with the credentials that Keystone accepts now. It creates the
// application credential if needed.
func (c *Cloud) CloudsYAML(options simulator.Clouds) []byte {
	if options.Auth == simulator.ApplicationCredential ||
		options.Auth == simulator.NamedApplicationCredential {
		c.keep("creating an application credential", c.needApplicationCredential())
	}
	return c.Simulator.CloudsYAML(options)
}

// Credentials returns the credentials that Keystone accepts now.
func (c *Cloud) Credentials() simulator.Credentials {
	c.keep("creating an application credential", c.needApplicationCredential())
	return c.Simulator.Credentials()
}

// needApplicationCredential creates the application credential when it is first used.
func (c *Cloud) needApplicationCredential() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.applicationCredential {
		return nil
	}
	current := c.Simulator.Credentials()
	return c.createApplicationCredential(simulator.Rotation{
		Password:                    current.Password,
		ApplicationCredentialSecret: current.ApplicationCredentialSecret,
		ApplicationCredentialExpiry: current.ApplicationCredentialExpiry,
	})
}

// createApplicationCredential creates an application credential with the secret and the expiry of
// the rotation, and tells the simulator.
func (c *Cloud) createApplicationCredential(rotation simulator.Rotation) error {
	current := c.Simulator.Credentials()
	current.Password = rotation.Password
	current.ApplicationCredentialSecret = rotation.ApplicationCredentialSecret
	current.ApplicationCredentialExpiry = rotation.ApplicationCredentialExpiry
	id, err := c.access.createApplicationCredential(c.ctx, current)
	if err != nil {
		return err
	}
	rotation.ApplicationCredentialID, rotation.KeepTokens = id, true
	c.Simulator.RotateCredentials(rotation)
	c.applicationCredential = true
	return nil
}

// RotateCredentials replaces the password, and the application credential if there is one. Keystone
// refuses the old ones, and their tokens. It chooses the ID of the application credential.
func (c *Cloud) RotateCredentials(rotation simulator.Rotation) {
	c.keep("rotating credentials", c.rotate(rotation))
}

func (c *Cloud) rotate(rotation simulator.Rotation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	current := c.Simulator.Credentials()
	if rotation.Password == "" {
		rotation.Password = newSecret()
	}
	if rotation.ApplicationCredentialSecret == "" {
		rotation.ApplicationCredentialSecret = newSecret()
	}
	if err := c.admin.setPassword(c.ctx, current.UserID, rotation.Password); err != nil {
		return err
	}
	current.Password = rotation.Password
	if err := c.awaitLogin(current); err != nil {
		return err
	}
	if !c.applicationCredential {
		rotation.KeepTokens = true
		c.Simulator.RotateCredentials(rotation)
		return nil
	}
	if err := c.access.deleteApplicationCredential(c.ctx, current); err != nil {
		return err
	}
	return c.createApplicationCredential(rotation)
}

// awaitLogin waits until Keystone accepts the token of a new login. It counts in seconds, and
// refuses tokens of the second in which the password changed.
func (c *Cloud) awaitLogin(user simulator.Credentials) error {
	const interval, limit = 100 * time.Millisecond, time.Minute
	return wait.PollUntilContextTimeout(c.ctx, interval, limit, true,
		func(ctx context.Context) (bool, error) {
			client, err := c.access.asUser(ctx, user)
			if err != nil {
				return false, err
			}
			valid, err := tokens.Validate(ctx, c.admin.identity, client.Token())
			return valid, err
		})
}

// RevokeTokens revokes all tokens and returns the number of those that were valid.
func (c *Cloud) RevokeTokens() int {
	c.mu.Lock()
	issued := slices.DeleteFunc(c.IssuedTokens(), func(token string) bool {
		return slices.Contains(c.revoked, token)
	})
	c.revoked = append(c.revoked, issued...)
	c.mu.Unlock()
	valid := 0
	for _, token := range issued {
		revoked, err := c.admin.revoke(c.ctx, token)
		c.keep("revoking a token", err)
		if revoked {
			valid++
		}
	}
	return valid
}

// ExpireTokens waits until all tokens have expired. That takes as long as their lifetime, so it is
// for Clouds whose tokens live for BriefTTL.
func (c *Cloud) ExpireTokens(ctx context.Context) error {
	const interval = 100 * time.Millisecond
	for _, token := range c.IssuedTokens() {
		err := wait.PollUntilContextTimeout(ctx, interval, startTime, true,
			func(ctx context.Context) (bool, error) {
				valid, err := tokens.Validate(ctx, c.admin.identity, token)
				return !valid, err
			})
		if err != nil {
			return fmt.Errorf("waiting for the end of a token: %w", err)
		}
	}
	return nil
}

// newSecret returns a secret that a test can find in logs.
func newSecret() string { return "secret-" + rand.Text() }
