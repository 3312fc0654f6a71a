package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// Volume returns a volume of the project, and whether it exists.
func (c *Client) Volume(ctx context.Context, id string) (found Volume, exists bool, err error) {
	var answer struct {
		Volume Volume `json:"volume"`
	}
	exists, err = c.look(ctx, Cinder(), "volumes/", id, &answer)
	if exists && answer.Volume.ID != id {
		return Volume{}, false, errorf(CloudUnreachable, "OpenStack's %s returned no volume that can be "+
			"read", Cinder().name)
	}
	return answer.Volume, exists, err
}

// Server returns the status of a server of the project, such as ACTIVE, and whether it exists.
func (c *Client) Server(ctx context.Context, id string) (status string, exists bool, err error) {
	var answer struct {
		Server struct {
			Status string `json:"status"`
		} `json:"server"`
	}
	exists, err = c.look(ctx, Nova(), "servers/", id, &answer)
	return answer.Server.Status, exists, err
}

// look reads one object. It does not exist only if the service itself says so.
func (c *Client) look(
	ctx context.Context, service Service, list, id string, answer any,
) (exists bool, err error) {
	if !IsID(id) || id == "detail" { // it would become another path
		return false, nil
	}
	err = c.call(ctx, service, func(endpoint *gophercloud.ServiceClient) error {
		err := read(ctx, endpoint, list+id, answer)
		if exists = err == nil; lacksObject(err) {
			return nil
		}
		return err
	})
	return exists, err
}

// lacksObject returns whether a service answers that an object does not exist. A load balancer
// between here and the service may answer with the same status.
func lacksObject(err error) bool {
	response, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	var answer struct {
		Fault struct {
			Code int `json:"code"`
		} `json:"itemNotFound"`
	}
	return response.Actual == http.StatusNotFound && json.Unmarshal(response.Body, &answer) == nil &&
		answer.Fault.Code == http.StatusNotFound
}

// Snapshots returns the snapshots of a volume of Cinder or a share of Manila.
func (c *Client) Snapshots(ctx context.Context, service Service, of string) ([]Volume, error) {
	var answer struct {
		Snapshots []struct {
			Volume

			VolumeID string `json:"volume_id"`
			ShareID  string `json:"share_id"`
		} `json:"snapshots"`
	}
	path := "snapshots?volume_id=" + of
	if service.label == Manila().label {
		path = "snapshots/detail?share_id=" + of
	}
	err := c.call(ctx, service, func(endpoint *gophercloud.ServiceClient) error {
		return read(ctx, endpoint, path, &answer)
	})
	var found []Volume
	for _, one := range answer.Snapshots {
		if one.VolumeID == of || one.ShareID == of {
			found = append(found, one.Volume)
		}
	}
	return found, err
}

const (
	// volumeMessagesVersion is the first microversion with a filter and pages of messages.
	volumeMessagesVersion = "3.5"
	shareMessagesVersion  = "2.37"
	maxMessages           = 10_000
)

// Messages returns the newest message about each of some volumes or shares, by ID: why a request
// failed. The request is optional.
func (c *Client) Messages(
	ctx context.Context, service Service, ids map[string]bool,
) (map[string]string, error) {
	found, filter := map[string]string{}, ""
	for id := range ids {
		if len(ids) == 1 {
			filter = map[bool]string{true: "&resource_id=", false: "&resource_uuid="}[service.label ==
				Manila().label] + id
		}
	}
	for offset := 0; offset < maxMessages && len(found) < len(ids); offset += maxItems {
		var page struct {
			Messages *[]struct {
				Volume string `json:"resource_uuid"`
				Share  string `json:"resource_id"`
				Text   string `json:"user_message"`
			} `json:"messages"`
		}
		path := fmt.Sprintf("messages?limit=%d&offset=%d%s", maxItems, offset, filter)
		if err := c.worded(c.optional(ctx, service, path, &page)); err != nil {
			return found, err
		}
		if page.Messages == nil {
			return found, errorf(CloudUnreachable, "OpenStack's %s returned no messages that can be read",
				service.name)
		}
		for _, m := range *page.Messages { // the newest is the first
			for _, id := range []string{m.Volume, m.Share} {
				if ids[id] && found[id] == "" {
					found[id] = m.Text
				}
			}
		}
		if len(*page.Messages) < maxItems {
			break
		}
	}
	return found, nil
}
