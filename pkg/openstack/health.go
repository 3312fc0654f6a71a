package openstack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// maxInError is the length of the list of volumes in error that a request asks for.
const maxInError = 100

// VolumeErrors returns the statuses in which a volume of a driver is in error:
// https://docs.openstack.org/api-ref/block-storage/v3/#volumes-volumes. Only a volume that somebody
// imports can be in error_managing.
func VolumeErrors() []string {
	return []string{"error", "error_deleting", "error_extending", "error_restoring"}
}

// ShareErrors is VolumeErrors for shares:
// https://github.com/openstack/manila/blob/master/manila/common/constants.py.
func ShareErrors() []string {
	return []string{
		"error", "error_deleting", "extending_error", "shrinking_error",
		"shrinking_possible_data_loss_error", "reverting_error", "backup_restoring_error",
	}
}

// VolumesInError returns the volumes of the project with a status of VolumeErrors, the 100 newest.
func (c *Client) VolumesInError(ctx context.Context, status string) ([]Volume, error) {
	return c.inError(ctx, Cinder(), "volumes", status)
}

// SharesInError returns the shares of the project with a status of ShareErrors, the 100 newest.
func (c *Client) SharesInError(ctx context.Context, status string) ([]Volume, error) {
	return c.inError(ctx, Manila(), "shares", status)
}

// inError ignores others: Cinder lists all volumes if its configuration permits no such filter.
func (c *Client) inError(
	ctx context.Context, service Service, list, status string,
) ([]Volume, error) {
	var answer struct {
		Volumes *[]Volume `json:"volumes"`
		Shares  *[]Volume `json:"shares"`
	}
	path := fmt.Sprintf("%s/detail?limit=%d&status=%s", list, maxInError, status)
	if err := c.worded(c.optional(ctx, service, path, &answer)); err != nil {
		return nil, err
	}
	found, err := checked(cmp.Or(answer.Volumes, answer.Shares), maxInError,
		func(v Volume) (string, Volume) { return v.ID, v })
	if err != nil {
		return nil, errorf(CloudUnreachable, "OpenStack's %s returned no list of what is in error: %s",
			service.name, err)
	}
	return slices.DeleteFunc(found, func(v Volume) bool { return v.Status != status }), nil
}
