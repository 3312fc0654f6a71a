package cli

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/protobuf/proto"
)

func (c *call) replication() spec.ControllerClient {
	return spec.NewControllerClient(c.driver.Connection())
}

func enableReplication(ctx context.Context, c *call, of *replicated) (proto.Message, error) {
	return c.replication().EnableVolumeReplication(ctx, &spec.EnableVolumeReplicationRequest{
		ReplicationSource: of.source, Secrets: of.secrets,
		VolumeId:   of.volumeID, //nolint:staticcheck // older drivers read it
		Parameters: c.allParameters(),
	})
}

func disableReplication(ctx context.Context, c *call, of *replicated) (proto.Message, error) {
	return c.replication().DisableVolumeReplication(ctx, &spec.DisableVolumeReplicationRequest{
		ReplicationSource: of.source, Secrets: of.secrets,
		VolumeId:   of.volumeID, //nolint:staticcheck // older drivers read it
		Parameters: c.allParameters(),
	})
}

func promote(ctx context.Context, c *call, of *replicated) (proto.Message, error) {
	return c.replication().PromoteVolume(ctx, &spec.PromoteVolumeRequest{
		ReplicationSource: of.source, Secrets: of.secrets,
		VolumeId:   of.volumeID, //nolint:staticcheck // older drivers read it
		Parameters: c.allParameters(), Force: c.force,
	})
}

func demote(ctx context.Context, c *call, of *replicated) (proto.Message, error) {
	return c.replication().DemoteVolume(ctx, &spec.DemoteVolumeRequest{
		ReplicationSource: of.source, Secrets: of.secrets,
		VolumeId:   of.volumeID, //nolint:staticcheck // older drivers read it
		Parameters: c.allParameters(),
	})
}

func resync(ctx context.Context, c *call, of *replicated) (proto.Message, error) {
	return c.replication().ResyncVolume(ctx, &spec.ResyncVolumeRequest{
		ReplicationSource: of.source, Secrets: of.secrets,
		VolumeId:   of.volumeID, //nolint:staticcheck // older drivers read it
		Parameters: c.allParameters(), Force: c.force,
	})
}

func replicationInfo(ctx context.Context, c *call, of *replicated) (proto.Message, error) {
	return c.replication().GetVolumeReplicationInfo(ctx, &spec.GetVolumeReplicationInfoRequest{
		ReplicationSource: of.source, Secrets: of.secrets,
		VolumeId: of.volumeID, //nolint:staticcheck // older drivers read it
	})
}

func destinationInfo(ctx context.Context, c *call, of *replicated) (proto.Message, error) {
	return c.replication().GetReplicationDestinationInfo(ctx,
		&spec.GetReplicationDestinationInfoRequest{
			ReplicationSource: of.source, Secrets: of.secrets,
		})
}
