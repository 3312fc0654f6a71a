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
	message := capability.ProtoReflect()
	kind := message.WhichOneof(message.Descriptor().Oneofs().ByName("type"))
	if kind == nil {
		return ""
	}
	chosen := message.Get(kind).Message()
	number := chosen.Descriptor().Fields().ByName("type")
	value := number.Enum().Values().ByNumber(chosen.Get(number).Enum())
	if value == nil {
		return ""
	}
	return string(kind.Name()) + "." + string(value.Name())
}
