// Package openstack sends requests to an OpenStack cloud: it logs in, keeps the session while its
// token is accepted, finds services, and lists what they offer. Its callers are the driver plugins,
// pkg/cloudprobe, pkg/credential, pkg/operator and pkg/plugin.
//
// Every error it returns is an *Error with a Reason. The message is the same text for the same
// failure: it contains no secrets and nothing that changes from one attempt to the next, such as
// local ports, request IDs and times.
package openstack

import (
	"context"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Client sends requests to one cloud. It logs in before the first request, after its Source
// changed, and when the token is no longer accepted. It is safe for concurrent use; requests run
// one after the other.
type Client struct {
	source  Source
	backoff *Backoff

	// busy contains one element while a request runs. A channel ends the wait with the context.
	busy    chan struct{}
	session *session
	words   *strings.Replacer
}

// NewClient returns a Client that has sent nothing yet.
func NewClient(source Source, backoff *Backoff) *Client {
	return &Client{source: source, backoff: backoff, busy: make(chan struct{}, 1)}
}

// Check returns nil if the cloud accepts the login for a project, and offers the services. If the
// Client has a session already, it reads the catalog again in place of a login.
func (c *Client) Check(ctx context.Context, services ...Service) error {
	return c.worded(c.check(ctx, services))
}

func (c *Client) check(ctx context.Context, services []Service) error {
	release, err := c.begin(ctx, identityService)
	if err != nil {
		return err
	}
	defer release()
	if !c.session.fresh { // the last check failed, perhaps because of the catalog
		if err := c.session.refreshCatalog(ctx); err != nil {
			return err
		}
	}
	for _, service := range services {
		endpoint, err := c.session.endpoint(ctx, service)
		if err == nil {
			err = c.session.checkVersion(ctx, service, endpoint)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Connected returns false if the cloud has ended the session, or there was none yet. While a
// request runs it returns true.
func (c *Client) Connected() bool {
	select {
	case c.busy <- struct{}{}:
		defer c.release()
		return c.session != nil
	default:
		return true
	}
}

func (c *Client) call(
	ctx context.Context, service Service, request func(*gophercloud.ServiceClient) error,
) error {
	return c.worded(c.send(ctx, service, request))
}

func (c *Client) send(
	ctx context.Context, service Service, request func(*gophercloud.ServiceClient) error,
) error {
	release, err := c.begin(ctx, service.name)
	if err != nil {
		return err
	}
	defer release()
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

// begin waits until no other request runs, and makes c.session usable. Then call release.
func (c *Client) begin(ctx context.Context, service string) (release func(), err error) {
	if release, err = c.acquire(ctx, service); err != nil {
		return nil, err
	}
	if err = c.connect(ctx); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// release lets the next request run. If the identity service has refused to renew the token, that
// request starts with a login, after a delay, instead of a token that is known to be refused.
func (c *Client) release() {
	if c.session != nil && c.session.refusal() != nil {
		refused := loginError(c.session.access, c.session.refusal())
		c.backoff.refuse(c.session.access, refused)
		c.disconnect()
	}
	<-c.busy
}

// connect reads the Source and makes c.session usable.
func (c *Client) connect(ctx context.Context) error {
	access, err := c.source()
	if err != nil {
		return err
	}
	if c.session != nil && c.session.fingerprint == access.Fingerprint() {
		c.session.fresh = false
		return nil
	}
	c.disconnect()
	c.words = access.Words
	c.session, err = c.backoff.login(ctx, access)
	return err
}

func (c *Client) disconnect() {
	if c.session != nil {
		c.session.provider.HTTPClient.CloseIdleConnections()
		c.session = nil
	}
}
