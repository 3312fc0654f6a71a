package connection

import (
	"slices"

	"github.com/csi-addons/spec/lib/go/identity"
)

// Capabilities that the controller uses, in the form of the status of a CSIAddonsNode.
const (
	ControllerService = "service.CONTROLLER_SERVICE"
	NodeService       = "service.NODE_SERVICE"
	ReclaimOffline    = "reclaim_space.OFFLINE"
	ReclaimOnline     = "reclaim_space.ONLINE"
	NetworkFence      = "network_fence.NETWORK_FENCE"
	GetFenceClients   = "network_fence.GET_CLIENTS_TO_FENCE"
)

// capabilitiesOf returns the names of capabilities, sorted and without repetitions. Names come from
// the specification, so that a driver cannot choose them.
func capabilitiesOf(response *identity.GetCapabilitiesResponse) []string {
	var names []string
	for _, capability := range response.GetCapabilities() {
		if name := capabilityOf(capability); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// capabilityOf returns the name of a capability, or "" if the specification does not contain it.
func capabilityOf(capability *identity.Capability) string {
	var prefix string
	var names map[int32]string
	var number int32
	switch kind := capability.GetType().(type) {
	case *identity.Capability_Service_:
		prefix, names = "service", identity.Capability_Service_Type_name
		number = int32(kind.Service.GetType())
	case *identity.Capability_ReclaimSpace_:
		prefix, names = "reclaim_space", identity.Capability_ReclaimSpace_Type_name
		number = int32(kind.ReclaimSpace.GetType())
	case *identity.Capability_NetworkFence_:
		prefix, names = "network_fence", identity.Capability_NetworkFence_Type_name
		number = int32(kind.NetworkFence.GetType())
	case *identity.Capability_VolumeReplication_:
		prefix, names = "volume_replication", identity.Capability_VolumeReplication_Type_name
		number = int32(kind.VolumeReplication.GetType())
	case *identity.Capability_VolumeGroup_:
		prefix, names = "volume_group", identity.Capability_VolumeGroup_Type_name
		number = int32(kind.VolumeGroup.GetType())
	case *identity.Capability_EncryptionKeyRotation_:
		prefix, names = "encryption_key_rotation", identity.Capability_EncryptionKeyRotation_Type_name
		number = int32(kind.EncryptionKeyRotation.GetType())
	}
	name, known := names[number]
	if !known {
		return ""
	}
	return prefix + "." + name
}
