// Package openstack sends the operators' requests to an OpenStack cloud: it reads clouds.yaml, logs
// in, keeps the session while its token is accepted, and lists share types and availability zones.
// Its callers are the driver plugins, pkg/cloudprobe, pkg/credential, pkg/operator and pkg/plugin.
//
// Every error it returns is an *Error with a Reason. The message is the same text for the same
// failure: it contains no secrets and nothing that changes from one attempt to the next, such as
// local ports, request IDs and times.
package openstack

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/utils/clock"
)

// Client sends requests to one cloud. It logs in before the first request, after its Source
// changed, and when the token is no longer accepted. It backs off while the cloud refuses the
// login, because clouds lock users out after too many attempts. It is safe for concurrent use;
// requests run one after the other.
type Client struct {
	source  Source
	backoff *backoff

	// busy contains one element while a request runs. A channel ends the wait with the context.
	busy    chan struct{}
	session *session
}

// NewClient returns a Client that has sent nothing yet. The clock measures the back-off after a
// refused login.
func NewClient(source Source, c clock.PassiveClock) *Client {
	return &Client{source: source, backoff: newBackoff(c), busy: make(chan struct{}, 1)}
}

// With returns a Client of another Source. Both share the back-off, so they do not send the same
// refused credentials twice.
func (c *Client) With(source Source) *Client {
	return &Client{source: source, backoff: c.backoff, busy: make(chan struct{}, 1)}
}

// Changed returns true if the Source has changed since the last login, or cannot be read. It sends
// nothing, and waits for a running request.
func (c *Client) Changed() bool {
	c.busy <- struct{}{}
	defer func() { <-c.busy }()
	access, err := c.source.read()
	return err != nil || !c.session.matches(access.fingerprint)
}

func (c *Client) call(
	ctx context.Context, service service, request func(*gophercloud.ServiceClient) error,
) error {
	release, err := c.acquire(ctx, service.name)
	if err != nil {
		return err
	}
	defer release()
	if err := c.connect(ctx); err != nil {
		return err
	}
	endpoint, err := c.session.endpoint(ctx, service)
	if err != nil {
		return err
	}
	failure := request(endpoint)
	if failure == nil {
		return c.session.takeCatalog()
	}
	classified := callError(service.name, endpoint.Endpoint, c.session.access, failure)
	if classified.Reason == CloudUnreachable || classified.Reason == NotOffered {
		// The service may have moved: a load balancer at the old address also returns 404 or 403.
		moved, ok := c.session.newEndpoint(ctx, endpoint, service)
		if ok && request(moved) == nil {
			return nil
		}
	}
	return classified
}

// acquire waits until no other request runs. The caller must call release.
func (c *Client) acquire(ctx context.Context, service string) (release func(), err error) {
	select {
	case c.busy <- struct{}{}:
		return c.release, nil
	case <-ctx.Done():
		return nil, errorf(CloudUnreachable, "OpenStack's %s cannot be used: %s", service,
			describe(ctx.Err()))
	}
}

// release lets the next request run. If the identity service has refused to renew the token, that
// request starts with a login, after a delay, instead of a token that is known to be refused.
func (c *Client) release() {
	if c.session != nil && c.session.refusal() != nil {
		refused := loginError(c.session.access.cloud.AuthInfo.AuthURL, c.session.refusal())
		c.backoff.refuse(c.session.access.fingerprint, refused)
		c.session.close()
		c.session = nil
	}
	<-c.busy
}

// connect reads the Source and makes c.session usable.
func (c *Client) connect(ctx context.Context) error {
	access, err := c.source.read()
	if err != nil {
		return err
	}
	return c.connectTo(ctx, access)
}

func (c *Client) connectTo(ctx context.Context, access *access) error {
	if c.session.matches(access.fingerprint) {
		c.session.fresh = false
		return nil
	}
	c.session.close()
	c.session = nil
	session, err := c.backoff.login(ctx, access)
	if err != nil {
		return err
	}
	c.session = session
	return nil
}
