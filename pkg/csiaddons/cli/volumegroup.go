package cli

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/volumegroup"
	"google.golang.org/protobuf/proto"
)

func (c *call) volumeGroups() spec.ControllerClient {
	return spec.NewControllerClient(c.driver.Connection())
}

func createGroup(ctx context.Context, c *call, secrets map[string]string) (proto.Message, error) {
	if c.groupName == "" {
		return nil, usage("--operation=%s needs --volumegroupname", c.operation)
	}
	return c.volumeGroups().CreateVolumeGroup(ctx, &spec.CreateVolumeGroupRequest{
		Name: c.groupName, VolumeIds: c.volumeIDs, Parameters: c.allParameters(), Secrets: secrets,
	})
}

func modifyGroup(ctx context.Context, c *call, of *group) (proto.Message, error) {
	return c.volumeGroups().ModifyVolumeGroupMembership(ctx,
		&spec.ModifyVolumeGroupMembershipRequest{
			VolumeGroupId: of.id, VolumeIds: c.volumeIDs, Parameters: c.allParameters(),
			Secrets: of.secrets,
		})
}

func deleteGroup(ctx context.Context, c *call, of *group) (proto.Message, error) {
	return c.volumeGroups().DeleteVolumeGroup(ctx,
		&spec.DeleteVolumeGroupRequest{VolumeGroupId: of.id, Secrets: of.secrets})
}

func getGroup(ctx context.Context, c *call, of *group) (proto.Message, error) {
	return c.volumeGroups().ControllerGetVolumeGroup(ctx,
		&spec.ControllerGetVolumeGroupRequest{VolumeGroupId: of.id, Secrets: of.secrets})
}

// maxGroups limits the list of a driver that never ends it.
const maxGroups = 10000

// listGroups lists all pages.
func listGroups(ctx context.Context, c *call, secrets map[string]string) (proto.Message, error) {
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
