package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	_ "github.com/csi-addons/spec/lib/go/encryptionkeyrotation" // describes a service
	_ "github.com/csi-addons/spec/lib/go/replication"           // describes a service
	_ "github.com/csi-addons/spec/lib/go/volumegroup"           // describes a service
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// fields are what flags and objects say about a request, by the names of its fields.
type fields map[string]any

// operation is a method of a driver, and what reads the target of a call.
type operation struct {
	method protoreflect.FullName
	target func(*call, context.Context) (fields, error)
}

func operations() map[string]operation {
	return map[string]operation{
		"GetIdentity":     {"identity.Identity.GetIdentity", (*call).noTarget},
		"GetCapabilities": {"identity.Identity.GetCapabilities", (*call).noTarget},
		"Probe":           {"identity.Identity.Probe", (*call).noTarget},
		"ControllerReclaimSpace": {
			"reclaimspace.ReclaimSpaceController.ControllerReclaimSpace", (*call).staged,
		},
		"NodeReclaimSpace": {"reclaimspace.ReclaimSpaceNode.NodeReclaimSpace", (*call).staged},
		"EncryptionKeyRotation": {
			"encryptionkeyrotation.EncryptionKeyRotationController.EncryptionKeyRotate", (*call).staged,
		},
		"NetworkFence":     {"fence.FenceController.FenceClusterNetwork", (*call).clients},
		"NetworkUnFence":   {"fence.FenceController.UnfenceClusterNetwork", (*call).clients},
		"GetFenceClients":  {"fence.FenceController.GetFenceClients", (*call).noTarget},
		"ListClusterFence": {"fence.FenceController.ListClusterFence", (*call).noTarget},

		"EnableVolumeReplication": {
			"replication.Controller.EnableVolumeReplication", (*call).replicated,
		},
		"DisableVolumeReplication": {
			"replication.Controller.DisableVolumeReplication", (*call).replicated,
		},
		"PromoteVolume": {"replication.Controller.PromoteVolume", (*call).replicated},
		"DemoteVolume":  {"replication.Controller.DemoteVolume", (*call).replicated},
		"ResyncVolume":  {"replication.Controller.ResyncVolume", (*call).replicated},
		"GetVolumeReplicationInfo": {
			"replication.Controller.GetVolumeReplicationInfo", (*call).replicated,
		},
		"GetReplicationDestinationInfo": {
			"replication.Controller.GetReplicationDestinationInfo", (*call).replicated,
		},

		"CreateVolumeGroup": {"volumegroup.Controller.CreateVolumeGroup", (*call).newGroup},
		"ModifyVolumeGroupMembership": {
			"volumegroup.Controller.ModifyVolumeGroupMembership", (*call).group,
		},
		"DeleteVolumeGroup":        {"volumegroup.Controller.DeleteVolumeGroup", (*call).group},
		"ControllerGetVolumeGroup": {"volumegroup.Controller.ControllerGetVolumeGroup", (*call).group},
		"ListVolumeGroups":         {"volumegroup.Controller.ListVolumeGroups", (*call).noTarget},
	}
}

// execute calls the driver and returns its answer. The request gets the fields of its message.
func (o operation) execute(ctx context.Context, c *call) (proto.Message, error) {
	content := fields{"parameters": c.allParameters(), "volume_ids": c.volumeIDs, "force": c.force}
	target, err := o.target(c, ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(content, target)
	if content["secrets"] == nil {
		if content["secrets"], err = c.secrets(ctx); err != nil {
			return nil, err
		}
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(o.method)
	if err != nil {
		return nil, fmt.Errorf("finding the operation: %w", err)
	}
	method := found.(protoreflect.MethodDescriptor)
	request, answer := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(encoded, request)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	path := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	return answer, c.driver.Connection().Invoke(ctx, path, request, answer)
}
