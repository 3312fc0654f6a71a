package credential

import (
	"context"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Cloud creates Clients for the OpenStack cloud that the operator itself uses.
type Cloud struct {
	// Own is the operator's own client. Clients share its back-off, and its session while the Secret
	// contains the same credentials as the operator's files, because clouds lock a user out after
	// several logins with a wrong password.
	Own *openstack.Client
	// Source is the source of the operator's own credentials. A Client uses everything in it except
	// the Secret.
	Source openstack.Source
	// Try is optional. It requests what the driver needs besides a login.
	Try func(context.Context, *openstack.Client) error
}

// Open returns a Client for the content of a Secret. It sends nothing.
func (c Cloud) Open(secret openstack.Secret) Client {
	source := c.Source
	source.Secret = func() (openstack.Secret, error) { return secret, nil }
	return &cloudClient{Cloud: c, source: source, client: c.Own.With(source)}
}

type cloudClient struct {
	Cloud
	source openstack.Source
	client *openstack.Client
}

// Try only logs in if the login is shared, because the cloud probe sends the other requests.
func (c *cloudClient) Try(ctx context.Context) error {
	if same, err := c.Own.LoginAs(ctx, c.source); same || err != nil {
		return err
	}
	if err := c.client.Login(ctx); err != nil || c.Cloud.Try == nil {
		return err
	}
	return c.Cloud.Try(ctx, c.client)
}

func (c *cloudClient) Expiry(ctx context.Context) (time.Time, error) {
	if same, err := c.Own.LoginAs(ctx, c.source); same && err == nil {
		return c.Own.CredentialExpiry(ctx)
	}
	return c.client.CredentialExpiry(ctx)
}
