package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
)

const (
	// accessRuleVersion is the microversion that added metadata to access rules (OpenStack Rocky).
	accessRuleVersion = "2.45"
	// sharesInPage and maxShares limit lists of shares.
	sharesInPage = 500
	maxShares    = 10_000
	// maxListings is how often a list is repeated if shares change during it.
	maxListings = 5
	// concurrentRequests is how many requests of one Shares run at the same time.
	concurrentRequests = 16
)

// errUnstable means that shares moved while they were listed.
const errUnstable = description("so many shares are created or deleted that a list may lack some")

// errTooManyShares means that a list exceeds maxShares or maxMetadata.
func errTooManyShares() error {
	return describef("it lists more than %d shares, or more than %d MiB of their metadata, which "+
		"is more than is accepted", maxShares, maxMetadata>>20)
}

// Shares sends requests about shares and their access rules. It is safe for concurrent use: some
// requests run at the same time, and the others wait.
type Shares struct {
	client   *Client
	session  *session
	endpoint gophercloud.ServiceClient
	slots    chan struct{}
}

// Shares logs in if necessary and returns a value for one operation. It uses the same session until
// the operation ends.
func (c *Client) Shares(ctx context.Context) (*Shares, error) {
	release, err := c.acquire(ctx, Manila().name)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	endpoint, err := c.session.endpoint(ctx, Manila())
	if err != nil {
		return nil, err
	}
	s := &Shares{
		client: c, session: c.session, endpoint: *endpoint,
		slots: make(chan struct{}, concurrentRequests),
	}
	s.endpoint.Microversion = accessRuleVersion
	return s, c.session.takeCatalog()
}

// call sends a request about one share, and classifies its error.
func (s *Shares) call(ctx context.Context, request func(*gophercloud.ServiceClient) error) error {
	return s.send(ctx, shareError, request)
}

// listError classifies the error of a request about all shares.
func listError(endpoint string, a Access, err error) *Error {
	return callError(Manila().name, endpoint, a, err)
}

func (s *Shares) send(
	ctx context.Context, classify func(endpoint string, a Access, err error) *Error,
	request func(*gophercloud.ServiceClient) error,
) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return unreachable(Manila().name, s.endpoint.Endpoint, ctx.Err())
	}
	endpoint := s.endpoint // gophercloud's client is a value, and no request changes the copy
	failure := request(&endpoint)
	if failure == nil {
		return nil
	}
	classified := classify(s.endpoint.Endpoint, s.session.access, failure)
	if s.session.refusal() != nil {
		return errors.Join(classified, s.client.forget(ctx))
	}
	return classified
}

// forget ends a session whose token the cloud refused to renew.
func (c *Client) forget(ctx context.Context) error {
	release, err := c.acquire(ctx, Manila().name)
	if err == nil {
		release()
	}
	return err
}

// shareError classifies the error of a request about one share.
func shareError(endpoint string, a Access, err error) *Error {
	name := Manila().name
	if isMissing(err) {
		return errorf(NotFound, "OpenStack's %s at %s has no such share or access rule (HTTP 404)", name,
			redactedURL(endpoint))
	}
	switch status := statusOf(err); status {
	case http.StatusConflict:
		return errorf(Conflict, "OpenStack's %s at %s is busy with the share (HTTP 409)", name,
			redactedURL(endpoint))
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge,
		http.StatusUnprocessableEntity:
		return errorf(Refused, "OpenStack's %s at %s refused the request (HTTP %d). It must support "+
			"version %s of the API, and the share must be in the status available", name,
			redactedURL(endpoint), status, accessRuleVersion)
	}
	return callError(name, endpoint, a, err)
}

// List returns all shares of the project whose metadata contain an entry, at most 10000. It returns
// an error if so many shares are created or deleted meanwhile that the list may lack some.
func (s *Shares) List(ctx context.Context, key, value string) ([]Share, error) {
	var found []Share
	err := s.send(ctx, listError, func(client *gophercloud.ServiceClient) (err error) {
		for range maxListings {
			if found, err = listShares(ctx, client, key, value); !errors.Is(err, errUnstable) {
				break
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// listShares returns the shares of all pages. Manila pages by position: if a share is deleted or
// created during it, the others move to other positions. So each page starts with the last share
// of the previous page. If it is not there, the error is errUnstable.
func listShares(ctx context.Context, client *gophercloud.ServiceClient, key, value string,
) ([]Share, error) {
	var found []Share
	seen, last, size := map[string]bool{}, "", 0
	for {
		part, err := listPage(ctx, client, shares.ListOpts{
			Metadata: map[string]string{key: value}, Limit: sharesInPage, Offset: max(len(seen)-1, 0),
			SortKey: "id", SortDir: "asc",
		})
		if err != nil {
			return nil, err
		}
		if last != "" {
			if len(part) == 0 || part[0].ID != last {
				return nil, errUnstable
			}
			part = part[1:]
		}
		if len(part) == 0 {
			return found, nil
		}
		if len(seen)+len(part) > maxShares {
			return nil, errTooManyShares()
		}
		matching, err := checkedShares(part, seen, func(share shares.Share) bool {
			return share.Metadata[key] == value // the cloud may ignore the filter
		})
		if err != nil {
			return nil, err
		}
		if size += metadataSize(matching); size > maxMetadata {
			return nil, errTooManyShares()
		}
		found, last = append(found, matching...), part[len(part)-1].ID
	}
}

// listPage returns shares from an offset on. gophercloud's pager would accept an answer without a
// list as an empty one, and skip shares if the cloud returns shorter pages than requested.
func listPage(ctx context.Context, client *gophercloud.ServiceClient, options shares.ListOpts,
) ([]shares.Share, error) {
	query, err := options.ToShareListQuery()
	if err != nil {
		return nil, err
	}
	var page struct {
		Shares *[]shares.Share `json:"shares"`
	}
	url := client.ServiceURL("shares", "detail") + query
	_, err = client.Get(ctx, url, &page, nil) //nolint:bodyclose // gophercloud closes it
	switch {
	case err != nil:
		return nil, err
	case page.Shares == nil:
		return nil, errNotOpenStack
	}
	return *page.Shares, nil
}

// Find returns a share, and whether it exists.
func (s *Shares) Find(ctx context.Context, shareID string) (share Share, exists bool, err error) {
	if !isID(shareID) || shareID == "detail" { // it would become another path
		return Share{}, false, nil
	}
	err = s.call(ctx, func(client *gophercloud.ServiceClient) error {
		found, err := shares.Get(ctx, client, shareID).Extract()
		switch {
		case err != nil:
			return err
		case found == nil, found.ID != shareID, found.Metadata == nil: // Manila returns all of them
			return errNotOpenStack
		}
		share, err = shareOf(*found)
		return err
	})
	return share, err == nil, ignoreNotFound(err)
}

// isMissing returns whether an error is Manila's own answer for an object that does not exist. A
// load balancer between here and Manila may also answer 404. The body is that of Manila's class
// Fault, in manila/api/openstack/wsgi.py.
func isMissing(err error) bool {
	response, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	var answer struct {
		Missing struct {
			Code int `json:"code"`
		} `json:"itemNotFound"`
	}
	return response.Actual == http.StatusNotFound &&
		json.Unmarshal(response.Body, &answer) == nil && answer.Missing.Code == http.StatusNotFound
}

// SetMetadata sets entries of the metadata of a share, and keeps the others.
func (s *Shares) SetMetadata(ctx context.Context, shareID string, entries map[string]string) error {
	return s.call(ctx, func(client *gophercloud.ServiceClient) error {
		return shares.SetMetadata(ctx, client, shareID, shares.SetMetadataOpts{Metadata: entries}).Err
	})
}

// DeleteMetadata removes an entry from the metadata of a share. It returns no error if the share or
// the entry does not exist.
func (s *Shares) DeleteMetadata(ctx context.Context, shareID, key string) error {
	return ignoreNotFound(s.call(ctx, func(client *gophercloud.ServiceClient) error {
		return shares.DeleteMetadatum(ctx, client, shareID, key).Err
	}))
}

func ignoreNotFound(err error) error {
	if ReasonOf(err) == NotFound {
		return nil
	}
	return err
}
