package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"k8s.io/utils/clock"
)

// Client asks one cloud. It logs in when it must: at first, when its Source changed, and when the token is no longer accepted.
// It backs off while the cloud refuses the login: clouds lock users out after too many attempts.
// It is safe for concurrent use; questions are asked one after the other.
type Client struct {
	source    Source
	userAgent string
	clock     clock.PassiveClock

	turn    chan struct{} // holds one while a question is asked; a channel, so that waiting ends with the context
	session *session
	refused refusal
}

// NewClient returns a Client that has not spoken to anyone yet. userAgent names the program to the cloud's operator. The clock
// measures how long credentials wait that the cloud has refused.
func NewClient(source Source, userAgent string, c clock.PassiveClock) *Client {
	return &Client{source: source, userAgent: userAgent, clock: c, turn: make(chan struct{}, 1)}
}

// ShareTypes returns the names of the share types that Manila offers to the project, as listed: at most 1000, each of 1 to 255
// characters of any kind. A cloud without Manila is an
// Error with reason NotOffered.
func (c *Client) ShareTypes(ctx context.Context) ([]string, error) {
	var names []string
	err := c.ask(ctx, manila(), func(share *gophercloud.ServiceClient) error {
		page, err := listing(ctx, sharetypes.List(share, sharetypes.ListOpts{}), "share_types")
		if err != nil {
			return err
		}
		found, err := sharetypes.ExtractShareTypes(page)
		if err != nil {
			return err
		}
		names, err = checked(found, func(t sharetypes.ShareType) (string, string) { return t.Name, t.Name })
		return err
	})
	return names, err
}

// listing fetches a list, which an answer of the API has under key even when it is empty.
func listing(ctx context.Context, pager pagination.Pager, key string) (pagination.Page, error) {
	page, err := pager.AllPages(ctx)
	if err != nil {
		return nil, err
	}
	if body, ok := page.GetBody().(map[string]any); !ok || body[key] == nil {
		return nil, errForeign
	}
	return page, nil
}

// Changed tells whether the Source holds something else than at the last login, or cannot be read. It sends nothing, and waits
// for a question that is being asked.
func (c *Client) Changed() bool {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	access, err := c.source.read()
	return err != nil || !c.session.matches(access.fingerprint)
}

// ask finds the service and puts the question to it.
func (c *Client) ask(ctx context.Context, service service, question func(*gophercloud.ServiceClient) error) error {
	done, err := c.begin(ctx, service.words)
	if err != nil {
		return err
	}
	defer done()
	if err := c.connect(ctx); err != nil {
		return err
	}
	endpoint, err := c.session.endpoint(ctx, service)
	if err != nil {
		return err
	}
	failure := question(endpoint)
	if failure == nil {
		return c.session.takeCatalog()
	}
	classified := callError(service.words, endpoint.Endpoint, c.session.access.cloud.AuthInfo.AuthURL, failure)
	switch {
	case classified.Reason == AuthenticationFailed && loginFailed(failure):
		// The next question begins with a login, not with a token that is known to be refused.
		c.refused = c.refused.again(c.session.access.fingerprint, classified, c.clock.Now())
		c.session.close()
		c.session = nil
	case classified.Reason == CloudUnreachable, classified.Reason == NotOffered:
		// What answers at the address of before need not be the service: a balancer says 404 or 403 as well.
		if moved, ok := c.session.moved(ctx, endpoint, service); ok && question(moved) == nil {
			return nil
		}
	}
	return classified
}

// begin waits for its turn; the caller ends it.
func (c *Client) begin(ctx context.Context, service string) (done func(), err error) {
	select {
	case c.turn <- struct{}{}:
		return func() { <-c.turn }, nil
	case <-ctx.Done():
		return nil, &Error{CloudUnreachable, fmt.Sprintf("OpenStack's %s cannot be used: %s", service, describe(ctx.Err()))}
	}
}

// connect leaves c.session usable.
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
	if err := c.refused.lasting(access.fingerprint, c.clock.Now()); err != nil {
		return err
	}
	session, err := login(ctx, access, c.userAgent)
	if err != nil {
		if ReasonOf(err) == AuthenticationFailed {
			c.refused = c.refused.again(access.fingerprint, err, c.clock.Now())
		}
		return err
	}
	c.session, c.refused = session, refusal{}
	return nil
}
