package cli

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/volumegroup"
	"google.golang.org/protobuf/proto"
)

func (c *call) volumeGroups() spec.ControllerClient {
	return spec.NewControllerClient(c.driver.Connection())
}

func createGroup(ctx context.Context, c *call) (proto.Message, error) {
	if c.groupName == "" {
		return nil, usage("--operation=%s needs --volumegroupname", c.operation)
	}
	secrets, err := c.secrets(ctx)
	if err != nil {
		return nil, err
	}
	return c.volumeGroups().CreateVolumeGroup(ctx, &spec.CreateVolumeGroupRequest{
		Name: c.groupName, VolumeIds: c.volumeIDs, Parameters: c.allParameters(), Secrets: secrets,
	})
}

// ofGroup returns the ID of the volume group and the content of the Secret.
func (c *call) ofGroup(ctx context.Context) (string, map[string]string, error) {
	id, err := c.group(ctx)
	if err != nil {
		return "", nil, err
	}
	secrets, err := c.secrets(ctx)
	return id, secrets, err
}

func modifyGroup(ctx context.Context, c *call) (proto.Message, error) {
	id, secrets, err := c.ofGroup(ctx)
	if err != nil {
		return nil, err
	}
	return c.volumeGroups().ModifyVolumeGroupMembership(ctx,
		&spec.ModifyVolumeGroupMembershipRequest{
			VolumeGroupId: id, VolumeIds: c.volumeIDs, Parameters: c.allParameters(), Secrets: secrets,
		})
}

func deleteGroup(ctx context.Context, c *call) (proto.Message, error) {
	id, secrets, err := c.ofGroup(ctx)
	if err != nil {
		return nil, err
	}
	return c.volumeGroups().DeleteVolumeGroup(ctx,
		&spec.DeleteVolumeGroupRequest{VolumeGroupId: id, Secrets: secrets})
}

func getGroup(ctx context.Context, c *call) (proto.Message, error) {
	id, secrets, err := c.ofGroup(ctx)
	if err != nil {
		return nil, err
	}
	return c.volumeGroups().ControllerGetVolumeGroup(ctx,
		&spec.ControllerGetVolumeGroupRequest{VolumeGroupId: id, Secrets: secrets})
}

// maxGroups limits the list of a driver that never ends it.
const maxGroups = 10000

// listGroups lists all pages.
func listGroups(ctx context.Context, c *call) (proto.Message, error) {
	secrets, err := c.secrets(ctx)
	if err != nil {
		return nil, err
	}
	all := &spec.ListVolumeGroupsResponse{}
	request := &spec.ListVolumeGroupsRequest{Secrets: secrets}
	for {
		page, err := c.volumeGroups().ListVolumeGroups(ctx, request)
		if err != nil {
			return nil, err
		}
		all.Entries = append(all.Entries, page.GetEntries()...)
		if page.GetNextToken() == "" || len(all.GetEntries()) > maxGroups {
			return all, nil
		}
		request.StartingToken = page.GetNextToken()
	}
}
