package openstack

import (
	"context"
	"errors"

	"github.com/gophercloud/gophercloud/v2"
)

// concurrentRequests is how many requests of one Operation run at the same time.
const concurrentRequests = 16

// Operation sends requests to one service with one session. It is safe for concurrent use: some
// requests run at the same time, and the others wait.
type Operation struct {
	client   *Client
	session  *session
	service  Service
	endpoint gophercloud.ServiceClient
	slots    chan struct{}
}

// Operation logs in if necessary. The requests of the operation have the microversion.
func (c *Client) Operation(
	ctx context.Context, service Service, microversion string,
) (*Operation, error) {
	release, err := c.begin(ctx, service.name)
	if err != nil {
		return nil, err
	}
	defer release()
	endpoint, err := c.session.endpoint(ctx, service)
	if err != nil {
		return nil, err
	}
	o := &Operation{
		client: c, session: c.session, service: service, endpoint: *endpoint,
		slots: make(chan struct{}, concurrentRequests),
	}
	o.endpoint.Microversion = microversion
	return o, c.session.takeCatalog()
}

// Send sends a request, which may change its client. If it fails, classify returns the reason and
// what the message says after the service and its URL, or "" for what can happen to any request.
func (o *Operation) Send(
	ctx context.Context, request func(*gophercloud.ServiceClient) error,
	classify func(error) (Reason, string),
) error {
	select {
	case o.slots <- struct{}{}:
		defer func() { <-o.slots }()
	case <-ctx.Done():
		return unreachable(o.service.name, o.endpoint.Endpoint, ctx.Err())
	}
	endpoint := o.endpoint // gophercloud's client is a value, and no request changes the copy
	failure := request(&endpoint)
	if failure == nil {
		return nil
	}
	classified := callError(o.service.name, o.endpoint.Endpoint, o.session.access, failure)
	if reason, text := classify(failure); reason != "" {
		classified = errorf(reason, "OpenStack's %s at %s %s", o.service.name,
			redactedURL(o.endpoint.Endpoint), text)
	}
	if o.session.refusal() != nil {
		return errors.Join(classified, o.client.forget(ctx, o.service))
	}
	return classified
}

// forget ends a session whose token the cloud refused to renew.
func (c *Client) forget(ctx context.Context, service Service) error {
	release, err := c.acquire(ctx, service.name)
	if err == nil {
		release()
	}
	return err
}
