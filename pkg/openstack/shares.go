package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
)

const (
	// accessRuleVersion is the microversion that added metadata to access rules (OpenStack Rocky).
	accessRuleVersion = "2.45"
	// recycleBinVersion is the microversion that added the recycle bin (OpenStack Xena).
	recycleBinVersion = "2.69"
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

// shareError classifies the error of a request about one share. It contains what Manila says.
func shareError(endpoint string, a Access, err error) *Error {
	name, status := Manila().name, statusOf(err)
	says, own := faultOf(err)
	if says != "" {
		says = fmt.Sprintf(": %.300q", says)
	}
	where := fmt.Sprintf("OpenStack's %s at %s", name, redactedURL(endpoint))
	switch {
	case status == http.StatusNotFound && own:
		return errorf(NotFound, "%s has no such share or access rule (HTTP 404)", where)
	case status == http.StatusForbidden && own:
		return errorf(Forbidden, "%s does not permit the request (HTTP 403)%s", where, says)
	case status == http.StatusConflict:
		return errorf(Conflict, "%s is busy with the share (HTTP 409)%s", where, says)
	case status == http.StatusNotAcceptable:
		return errorf(NotOffered, "%s does not support version %s of its API (HTTP 406)", where,
			accessRuleVersion)
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge,
		status == http.StatusUnprocessableEntity:
		return errorf(Refused, "%s refused the request (HTTP %d)%s", where, status, says)
	}
	return callError(name, endpoint, a, err)
}

// faultOf returns the message of Manila's own error answer, and whether it is one. A load balancer
// between here and Manila may answer with the same status. The body is that of Manila's class
// Fault, in manila/api/openstack/wsgi.py.
func faultOf(err error) (message string, own bool) {
	response, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	name := map[int]string{
		http.StatusBadRequest: "badRequest", http.StatusForbidden: "forbidden",
		http.StatusNotFound: "itemNotFound", http.StatusConflict: "conflictingRequest",
	}[response.Actual]
	var answer map[string]struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if name == "" || json.Unmarshal(response.Body, &answer) != nil ||
		answer[name].Code != response.Actual {
		return "", false
	}
	return answer[name].Message, true
}

// List returns all shares of the project whose metadata contain an entry, at most 10000, and those
// in the recycle bin. It returns an error if so many shares are created or deleted meanwhile that
// the list may lack some.
func (s *Shares) List(ctx context.Context, key, value string) ([]Share, error) {
	var found []Share
	err := s.send(ctx, listError, func(client *gophercloud.ServiceClient) (err error) {
		found, err = listStable(ctx, client, query{key: key, value: value})
		if err != nil {
			return err
		}
		client.Microversion = recycleBinVersion
		deleted, err := listStable(ctx, client, query{key: key, value: value, deleted: true})
		if statusOf(err) == http.StatusNotAcceptable {
			return nil // this Manila has no recycle bin
		}
		for _, share := range deleted {
			known := func(other Share) bool { return other.ID == share.ID } // it was moved meanwhile
			if !slices.ContainsFunc(found, known) {
				found = append(found, share)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// query selects shares by an entry of their metadata. Those in the recycle bin are a list of their
// own.
type query struct {
	key, value string
	deleted    bool
}

// listStable repeats a list while shares move.
func listStable(ctx context.Context, client *gophercloud.ServiceClient, q query,
) (found []Share, err error) {
	for range maxListings {
		if found, err = listShares(ctx, client, q); !errors.Is(err, errUnstable) {
			break
		}
	}
	return found, err
}

// listShares returns the shares of all pages. Manila pages by position: if a share is deleted or
// created during it, the others move to other positions. So each page starts with the last share
// of the previous page. If it is not there, the error is errUnstable.
func listShares(ctx context.Context, client *gophercloud.ServiceClient, q query,
) ([]Share, error) {
	var found []Share
	seen, last, size := map[string]bool{}, "", 0
	for {
		part, err := listPage(ctx, client, q, max(len(seen)-1, 0))
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
		matching, err := checkedShares(part, seen, func(share Share) bool {
			return share.Metadata[q.key] == q.value // the cloud may ignore the filter
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
func listPage(ctx context.Context, client *gophercloud.ServiceClient, q query, offset int,
) ([]foundShare, error) {
	text, err := shares.ListOpts{
		Metadata: map[string]string{q.key: q.value}, Limit: sharesInPage, Offset: offset,
		SortKey: "id", SortDir: "asc",
	}.ToShareListQuery()
	if err != nil {
		return nil, err
	}
	if q.deleted {
		text += "&is_soft_deleted=True"
	}
	var page struct {
		Shares *[]foundShare `json:"shares"`
	}
	url := client.ServiceURL("shares", "detail") + text
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
		var answer struct {
			Share foundShare `json:"share"`
		}
		err := shares.Get(ctx, client, shareID).ExtractInto(&answer)
		switch {
		case err != nil:
			return err
		case answer.Share.ID != shareID, answer.Share.Metadata == nil: // Manila returns all of them
			return errNotOpenStack
		}
		share, err = shareOf(answer.Share)
		return err
	})
	return share, err == nil, ignoreNotFound(err)
}
