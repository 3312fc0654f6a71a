package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// Client asks one cloud. It logs in when it must: at first, when its Source changed, and when the token is no longer accepted.
// It is safe for concurrent use; questions are asked one after the other.
type Client struct {
	source    Source
	userAgent string

	turn    chan struct{} // holds one while a question is asked; a channel, so that waiting ends with the context
	session *session
}

// NewClient returns a Client that has not spoken to anyone yet. userAgent names the program to the cloud's operator.
func NewClient(source Source, userAgent string) *Client {
	return &Client{source: source, userAgent: userAgent, turn: make(chan struct{}, 1)}
}

// ShareTypes returns the names of the share types that Manila offers to the project, as listed. A cloud without Manila is an
// Error with reason NotOffered.
func (c *Client) ShareTypes(ctx context.Context) ([]string, error) {
	var names []string
	err := c.ask(ctx, "shared file system service (Manila)", []string{"sharev2", "shared-file-system"}, func(share *gophercloud.ServiceClient) error {
		page, err := listing(ctx, sharetypes.List(share, sharetypes.ListOpts{}), "share_types")
		if err != nil {
			return err
		}
		found, err := sharetypes.ExtractShareTypes(page)
		if err != nil {
			return err
		}
		for _, t := range found {
			names = append(names, t.Name)
		}
		return nil
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
func (c *Client) ask(ctx context.Context, service string, types []string, question func(*gophercloud.ServiceClient) error) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return &Error{CloudUnreachable, fmt.Sprintf("OpenStack's %s cannot be used: %s", service, describe(ctx.Err()))}
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	endpoint, found, err := c.session.endpoint(ctx, types...)
	if err == nil && !found {
		err = &Error{NotOffered, fmt.Sprintf("OpenStack at %s offers no %s: its catalog has no %s%s",
			place(c.session.access.cloud.AuthInfo.AuthURL), service, types[0], inRegion(c.session.access.cloud.RegionName))}
	}
	if err != nil {
		return err
	}
	failure := question(endpoint)
	if failure == nil {
		return c.session.takeCatalog()
	}
	classified := callError(service, endpoint.Endpoint, c.session.access.cloud.AuthInfo.AuthURL, failure)
	switch {
	case classified.Reason == AuthenticationFailed && loginFailed(failure):
		// The next question begins with a login, not with a token that is known to be refused.
		c.session.close()
		c.session = nil
	case classified.Reason == CloudUnreachable:
		if moved, ok := c.session.moved(ctx, endpoint, types...); ok && question(moved) == nil {
			return nil
		}
	}
	return classified
}

func inRegion(region string) string {
	if region == "" {
		return ""
	}
	return " in region " + region
}

// connect leaves c.session usable.
func (c *Client) connect(ctx context.Context) error {
	access, err := c.source.read()
	if err != nil {
		return err
	}
	if c.session.matches(access.fingerprint) {
		c.session.fresh = false
		return nil
	}
	c.session.close()
	c.session = nil
	session, err := login(ctx, access, c.userAgent)
	if err != nil {
		return err
	}
	c.session = session
	return nil
}
