package cli

import (
	"context"

	"github.com/csi-addons/spec/lib/go/encryptionkeyrotation"
	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
)

// operation calls the driver and returns its answer.
type operation func(context.Context, *call) (proto.Message, error)

// operations returns the operations by name.
func operations() map[string]operation {
	return map[string]operation{
		"GetIdentity":            getIdentity,
		"GetCapabilities":        getCapabilities,
		"Probe":                  probe,
		"ControllerReclaimSpace": with((*call).found, controllerReclaimSpace),
		"NodeReclaimSpace":       with((*call).found, nodeReclaimSpace),
		"EncryptionKeyRotation":  with((*call).found, rotateKey),
		"NetworkFence":           with((*call).clients, fenceNetwork),
		"NetworkUnFence":         with((*call).clients, unfenceNetwork),
		"GetFenceClients":        with((*call).secrets, getFenceClients),
		"ListClusterFence":       with((*call).secrets, listClusterFence),

		"EnableVolumeReplication":       with((*call).replicated, enableReplication),
		"DisableVolumeReplication":      with((*call).replicated, disableReplication),
		"PromoteVolume":                 with((*call).replicated, promote),
		"DemoteVolume":                  with((*call).replicated, demote),
		"ResyncVolume":                  with((*call).replicated, resync),
		"GetVolumeReplicationInfo":      with((*call).replicated, replicationInfo),
		"GetReplicationDestinationInfo": with((*call).replicated, destinationInfo),

		"CreateVolumeGroup":           with((*call).secrets, createGroup),
		"ModifyVolumeGroupMembership": with((*call).group, modifyGroup),
		"DeleteVolumeGroup":           with((*call).group, deleteGroup),
		"ControllerGetVolumeGroup":    with((*call).group, getGroup),
		"ListVolumeGroups":            with((*call).secrets, listGroups),
	}
}

// with returns an operation that reads the target of its call first.
func with[T any](read func(*call, context.Context) (T, error),
	execute func(context.Context, *call, T) (proto.Message, error),
) operation {
	return func(ctx context.Context, c *call) (proto.Message, error) {
		target, err := read(c, ctx)
		if err != nil {
			return nil, err
		}
		return execute(ctx, c, target)
	}
}

func getIdentity(ctx context.Context, c *call) (proto.Message, error) {
	return c.driver.Identity.GetIdentity(ctx, &identity.GetIdentityRequest{})
}

func getCapabilities(ctx context.Context, c *call) (proto.Message, error) {
	return c.driver.Identity.GetCapabilities(ctx, &identity.GetCapabilitiesRequest{})
}

// probe fails if the driver is not ready.
func probe(ctx context.Context, c *call) (proto.Message, error) {
	answer, err := c.driver.Identity.Probe(ctx, &identity.ProbeRequest{})
	if err == nil && answer.GetReady() != nil && !answer.GetReady().GetValue() {
		return nil, status.Error(codes.FailedPrecondition, "the driver is not ready")
	}
	return answer, err
}

func controllerReclaimSpace(ctx context.Context, c *call, found *driver.Volume,
) (proto.Message, error) {
	return c.driver.ControllerReclaimSpace.ControllerReclaimSpace(ctx,
		&reclaimspace.ControllerReclaimSpaceRequest{
			VolumeId: found.ID(), Parameters: found.Attributes(), Secrets: found.Secrets,
		})
}

func nodeReclaimSpace(ctx context.Context, c *call, found *driver.Volume) (proto.Message, error) {
	path := found.StagingPath(c.stagingPath)
	return c.driver.NodeReclaimSpace.NodeReclaimSpace(ctx, &reclaimspace.NodeReclaimSpaceRequest{
		VolumeId: found.ID(), VolumePath: path, StagingTargetPath: path,
		VolumeCapability: found.Capability(), Secrets: found.Secrets,
	})
}

func rotateKey(ctx context.Context, c *call, found *driver.Volume) (proto.Message, error) {
	client := encryptionkeyrotation.NewEncryptionKeyRotationControllerClient(c.driver.Connection())
	return client.EncryptionKeyRotate(ctx, &encryptionkeyrotation.EncryptionKeyRotateRequest{
		VolumeId: found.ID(), VolumePath: found.StagingPath(c.stagingPath),
		VolumeCapability: found.Capability(), Secrets: found.Secrets, Parameters: found.Attributes(),
	})
}

func fenceNetwork(ctx context.Context, c *call, of *clients) (proto.Message, error) {
	return c.driver.Fence.FenceClusterNetwork(ctx, &fence.FenceClusterNetworkRequest{
		Parameters: c.allParameters(), Secrets: of.secrets, Cidrs: of.cidrs,
	})
}

func unfenceNetwork(ctx context.Context, c *call, of *clients) (proto.Message, error) {
	return c.driver.Fence.UnfenceClusterNetwork(ctx, &fence.UnfenceClusterNetworkRequest{
		Parameters: c.allParameters(), Secrets: of.secrets, Cidrs: of.cidrs,
	})
}

func getFenceClients(ctx context.Context, c *call, secrets map[string]string,
) (proto.Message, error) {
	return c.driver.Fence.GetFenceClients(ctx, &fence.GetFenceClientsRequest{
		Parameters: c.allParameters(), Secrets: secrets,
	})
}

func listClusterFence(ctx context.Context, c *call, secrets map[string]string,
) (proto.Message, error) {
	return c.driver.Fence.ListClusterFence(ctx, &fence.ListClusterFenceRequest{
		Parameters: c.allParameters(), Secrets: secrets,
	})
}
