package adapter

import (
	"context"

	"github.com/csi-addons/spec/lib/go/identity"

	"github.com/openstack-csi/csi-operator/pkg/version"
)

// identityService serves identity.Identity.
type identityService struct {
	identity.UnimplementedIdentityServer

	driver  Driver
	service Service
}

// GetIdentity returns the name of the CSI driver.
func (s identityService) GetIdentity(context.Context, *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{
		Name: s.driver.name(), VendorVersion: version.Get().GitVersion,
	}, nil
}

// name returns the name of the CSI driver, which its CSIDriver has.
func (d Driver) name() string {
	if d == Manila {
		return "manila.csi.openstack.org"
	}
	return "cinder.csi.openstack.org"
}

// Probe always answers that the adapter is ready: it needs nothing before the first operation.
func (s identityService) Probe(context.Context, *identity.ProbeRequest,
) (*identity.ProbeResponse, error) {
	return &identity.ProbeResponse{}, nil
}

// GetCapabilities returns the operations of the service of the driver in this pod.
func (s identityService) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	return &identity.GetCapabilitiesResponse{Capabilities: s.capabilities()}, nil
}

func (s identityService) capabilities() []*identity.Capability {
	switch {
	case s.driver == Cinder && s.service == Node:
		return []*identity.Capability{
			provides(identity.Capability_Service_NODE_SERVICE),
			reclaims(identity.Capability_ReclaimSpace_ONLINE),
		}
	case s.driver == Cinder:
		// The controller of the CSI-Addons for Ceph calls only drivers that reclaim space offline too,
		// and accepts UNIMPLEMENTED for this step of the operation.
		return []*identity.Capability{
			provides(identity.Capability_Service_CONTROLLER_SERVICE),
			reclaims(identity.Capability_ReclaimSpace_OFFLINE),
		}
	case s.service == Node:
		return []*identity.Capability{
			provides(identity.Capability_Service_NODE_SERVICE),
			fences(identity.Capability_NetworkFence_GET_CLIENTS_TO_FENCE),
		}
	}
	return []*identity.Capability{
		provides(identity.Capability_Service_CONTROLLER_SERVICE),
		fences(identity.Capability_NetworkFence_NETWORK_FENCE),
	}
}

func provides(kind identity.Capability_Service_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_Service_{
		Service: &identity.Capability_Service{Type: kind},
	}}
}

func reclaims(kind identity.Capability_ReclaimSpace_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_ReclaimSpace_{
		ReclaimSpace: &identity.Capability_ReclaimSpace{Type: kind},
	}}
}

func fences(kind identity.Capability_NetworkFence_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_NetworkFence_{
		NetworkFence: &identity.Capability_NetworkFence{Type: kind},
	}}
}
