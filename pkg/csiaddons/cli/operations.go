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
)

// operations returns the operations by name.
func operations() map[string]operation {
	return map[string]operation{
		"GetIdentity":            getIdentity,
		"GetCapabilities":        getCapabilities,
		"Probe":                  probe,
		"ControllerReclaimSpace": controllerReclaimSpace,
		"NodeReclaimSpace":       nodeReclaimSpace,
		"EncryptionKeyRotation":  rotateKey,
		"NetworkFence":           fenceNetwork,
		"NetworkUnFence":         unfenceNetwork,
		"GetFenceClients":        getFenceClients,
		"ListClusterFence":       listClusterFence,

		"EnableVolumeReplication":       enableReplication,
		"DisableVolumeReplication":      disableReplication,
		"PromoteVolume":                 promote,
		"DemoteVolume":                  demote,
		"ResyncVolume":                  resync,
		"GetVolumeReplicationInfo":      replicationInfo,
		"GetReplicationDestinationInfo": destinationInfo,

		"CreateVolumeGroup":           createGroup,
		"ModifyVolumeGroupMembership": modifyGroup,
		"DeleteVolumeGroup":           deleteGroup,
		"ControllerGetVolumeGroup":    getGroup,
		"ListVolumeGroups":            listGroups,
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

func controllerReclaimSpace(ctx context.Context, c *call) (proto.Message, error) {
	found, err := c.found(ctx)
	if err != nil {
		return nil, err
	}
	return c.driver.ControllerReclaimSpace.ControllerReclaimSpace(ctx,
		&reclaimspace.ControllerReclaimSpaceRequest{
			VolumeId: found.ID(), Parameters: found.Attributes(), Secrets: found.Secrets,
		})
}

func nodeReclaimSpace(ctx context.Context, c *call) (proto.Message, error) {
	found, err := c.found(ctx)
	if err != nil {
		return nil, err
	}
	path := found.StagingPath(c.stagingPath)
	return c.driver.NodeReclaimSpace.NodeReclaimSpace(ctx, &reclaimspace.NodeReclaimSpaceRequest{
		VolumeId: found.ID(), VolumePath: path, StagingTargetPath: path,
		VolumeCapability: found.Capability(), Secrets: found.Secrets,
	})
}

func rotateKey(ctx context.Context, c *call) (proto.Message, error) {
	found, err := c.found(ctx)
	if err != nil {
		return nil, err
	}
	client := encryptionkeyrotation.NewEncryptionKeyRotationControllerClient(c.driver.Connection())
	return client.EncryptionKeyRotate(ctx, &encryptionkeyrotation.EncryptionKeyRotateRequest{
		VolumeId: found.ID(), VolumePath: found.StagingPath(c.stagingPath),
		VolumeCapability: found.Capability(), Secrets: found.Secrets, Parameters: found.Attributes(),
	})
}

func fenceNetwork(ctx context.Context, c *call) (proto.Message, error) {
	clients, err := c.clients()
	if err != nil {
		return nil, err
	}
	secrets, err := c.secrets(ctx)
	if err != nil {
		return nil, err
	}
	return c.driver.Fence.FenceClusterNetwork(ctx, &fence.FenceClusterNetworkRequest{
		Parameters: c.allParameters(), Secrets: secrets, Cidrs: clients,
	})
}

func unfenceNetwork(ctx context.Context, c *call) (proto.Message, error) {
	clients, err := c.clients()
	if err != nil {
		return nil, err
	}
	secrets, err := c.secrets(ctx)
	if err != nil {
		return nil, err
	}
	return c.driver.Fence.UnfenceClusterNetwork(ctx, &fence.UnfenceClusterNetworkRequest{
		Parameters: c.allParameters(), Secrets: secrets, Cidrs: clients,
	})
}

func getFenceClients(ctx context.Context, c *call) (proto.Message, error) {
	secrets, err := c.secrets(ctx)
	if err != nil {
		return nil, err
	}
	return c.driver.Fence.GetFenceClients(ctx, &fence.GetFenceClientsRequest{
		Parameters: c.allParameters(), Secrets: secrets,
	})
}

func listClusterFence(ctx context.Context, c *call) (proto.Message, error) {
	secrets, err := c.secrets(ctx)
	if err != nil {
		return nil, err
	}
	return c.driver.Fence.ListClusterFence(ctx, &fence.ListClusterFenceRequest{
		Parameters: c.allParameters(), Secrets: secrets,
	})
}
