// Package shares sends requests about shares of Manila and their access rules. Its callers are the
// adapter of CSI-Addons and pkg/kubectl.
package shares

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
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
)

// errUnstable means that shares moved while they were listed.
const errUnstable = openstack.DescribedError(
	"so many shares are created or deleted that a list may lack some")

// errTooManyShares means that a list exceeds maxShares or maxMetadata.
func errTooManyShares() error {
	return openstack.DescribedError(fmt.Sprintf("it lists more than %d shares, or more than %d MiB "+
		"of their metadata, which is more than is accepted", maxShares, maxMetadata>>20))
}

// Requests sends requests about shares and their access rules, for one operation. It is safe for
// concurrent use: some requests run at the same time, and the others wait.
type Requests struct{ operation *openstack.Operation }

// New logs in if necessary.
func New(ctx context.Context, client *openstack.Client) (*Requests, error) {
	operation, err := client.Operation(ctx, openstack.Manila(), accessRuleVersion)
	if err != nil {
		return nil, err
	}
	return &Requests{operation}, nil
}

func (r *Requests) call(ctx context.Context, request func(*gophercloud.ServiceClient) error) error {
	return r.operation.Send(ctx, request, classify)
}

// classify classifies the error of a request about one share. It contains what Manila says.
func classify(err error) (reason openstack.Reason, text string) {
	response, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	says, own := faultOf(response)
	if says != "" {
		says = fmt.Sprintf(": %.300q", says)
	}
	switch status := response.Actual; {
	case status == http.StatusNotFound && own:
		return openstack.NotFound, "has no such share or access rule (HTTP 404)"
	case status == http.StatusForbidden && own:
		return openstack.Forbidden, "does not permit the request (HTTP 403)" + says
	case status == http.StatusConflict:
		return openstack.Conflict, "is busy with the share (HTTP 409)" + says
	case status == http.StatusNotAcceptable:
		return openstack.NotOffered, "does not support version " + accessRuleVersion +
			" of its API (HTTP 406)"
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge,
		status == http.StatusUnprocessableEntity:
		return openstack.Refused, fmt.Sprintf("refused the request (HTTP %d)%s", status, says)
	}
	return "", ""
}

// faultOf returns the message of Manila's own error answer, and whether it is one. A load balancer
// between here and Manila may answer with the same status. The body is that of Manila's class
// Fault, in manila/api/openstack/wsgi.py.
func faultOf(response gophercloud.ErrUnexpectedResponseCode) (message string, own bool) {
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
func (r *Requests) List(ctx context.Context, key, value string) ([]Share, error) {
	var found []Share
	err := r.operation.Send(ctx, func(client *gophercloud.ServiceClient) (err error) {
		found, err = listStable(ctx, client, query{key: key, value: value})
		if err != nil {
			return err
		}
		client.Microversion = recycleBinVersion
		deleted, err := listStable(ctx, client, query{key: key, value: value, deleted: true})
		if gophercloud.ResponseCodeIs(err, http.StatusNotAcceptable) {
			return nil // this Manila has no recycle bin
		}
		for _, share := range deleted {
			known := func(other Share) bool { return other.ID == share.ID } // it was moved meanwhile
			if !slices.ContainsFunc(found, known) {
				found = append(found, share)
			}
		}
		return err
	}, func(error) (openstack.Reason, string) { return "", "" })
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
		return nil, openstack.ErrNotOpenStack
	}
	return *page.Shares, nil
}

// Find returns a share, and whether it exists.
func (r *Requests) Find(ctx context.Context, shareID string) (share Share, exists bool, err error) {
	if !openstack.IsID(shareID) || shareID == "detail" { // it would become another path
		return Share{}, false, nil
	}
	err = r.call(ctx, func(client *gophercloud.ServiceClient) error {
		var answer struct {
			Share foundShare `json:"share"`
		}
		err := shares.Get(ctx, client, shareID).ExtractInto(&answer)
		switch {
		case err != nil:
			return err
		case answer.Share.ID != shareID, answer.Share.Metadata == nil: // Manila returns all of them
			return openstack.ErrNotOpenStack
		}
		share, err = shareOf(answer.Share)
		return err
	})
	return share, err == nil, ignoreNotFound(err)
}

// Exports returns the paths of a share that clients mount, such as 192.0.2.1:/share, the preferred
// ones first. Each has at most 1023 arbitrary characters.
func (r *Requests) Exports(ctx context.Context, shareID string) (paths []string, _ error) {
	err := r.call(ctx, func(client *gophercloud.ServiceClient) error {
		found, err := shares.ListExportLocations(ctx, client, shareID).Extract()
		slices.SortStableFunc(found, func(a, b shares.ExportLocation) int {
			return cmp.Compare(fmt.Sprint(b.Preferred), fmt.Sprint(a.Preferred))
		})
		for _, location := range found {
			if isShort(location.Path) {
				paths = append(paths, location.Path)
			}
		}
		return err
	})
	return paths, err
}
