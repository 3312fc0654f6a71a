package credential

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Cloud opens Clients of an OpenStack that the operator itself uses too.
type Cloud struct {
	// Own is the operator's own client. Where the Secret has what the operator's files have, the login is shared: a wrong password
	// that is sent twice as often locks users out twice as soon.
	Own *openstack.Client
	// Source is where the operator's own credentials are; a Secret has the same besides.
	Source openstack.Source
	// UserAgent names the program to the cloud's operator.
	UserAgent string
	Clock     clock.PassiveClock
	// Try asks for what the driver needs besides a login; nil is nothing.
	Try func(context.Context, *openstack.Client) error
}

// Open returns a Client for a Secret.
func (c Cloud) Open(secret openstack.Secret) Client {
	source := c.Source
	source.Secret = func() (openstack.Secret, error) { return secret, nil }
	return &cloudClient{Cloud: c, source: source, client: openstack.NewClient(source, c.UserAgent, c.Clock)}
}

type cloudClient struct {
	Cloud
	source openstack.Source
	client *openstack.Client
}

// Try leaves the rest to the gate where the login is shared.
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
