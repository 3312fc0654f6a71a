package openstack

import (
	"context"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
)

// Volume is a volume of Cinder. Its fields are from the cloud; the ID is safe in URLs and messages.
type Volume struct {
	ID, Status string
	Metadata   map[string]string
}

// Volumes returns all volumes of the project, at most 10,000.
func (c *Client) Volumes(ctx context.Context) (volumes []Volume, err error) {
	err = c.call(ctx, Cinder(), func(endpoint *gophercloud.ServiceClient) error {
		volumes = nil
		for path := "volumes/detail"; path != ""; {
			var page struct {
				Volumes *[]Volume `json:"volumes"`
				// Links contains the link to the next page, if any.
				Links []any `json:"volumes_links"`
			}
			if err := read(ctx, endpoint, path, &page); err != nil {
				return err
			}
			more, err := checked(page.Volumes, maxTypes, func(v Volume) (string, Volume) {
				return v.ID, v
			})
			if err != nil {
				return err
			}
			if volumes, path = append(volumes, more...), ""; len(volumes) > maxTypes {
				return TooManyError(maxTypes)
			}
			if len(more) > 0 && len(page.Links) > 0 {
				path = "volumes/detail?marker=" + url.QueryEscape(more[len(more)-1].ID)
			}
		}
		return nil
	})
	return volumes, err
}
