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
	// operation is what the adapter does for the service.
	operation *identity.Capability
}

// GetIdentity returns the name of the CSI driver.
func (s identityService) GetIdentity(context.Context, *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{
		Name: s.driver.name(), VendorVersion: version.Get().GitVersion,
	}, nil
}

// name returns the name of the CSI driver, which its CSIDriver has.
func (d Driver) name() string { return string(d) + ".csi.openstack.org" }

// Probe always answers that the adapter is ready: it needs nothing before the first operation.
func (s identityService) Probe(context.Context, *identity.ProbeRequest,
) (*identity.ProbeResponse, error) {
	return &identity.ProbeResponse{}, nil
}

// GetCapabilities returns the service of the driver in this pod, and its operation.
func (s identityService) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	kind := identity.Capability_Service_CONTROLLER_SERVICE
	if s.service == Node {
		kind = identity.Capability_Service_NODE_SERVICE
	}
	service := &identity.Capability{Type: &identity.Capability_Service_{
		Service: &identity.Capability_Service{Type: kind},
	}}
	return &identity.GetCapabilitiesResponse{
		Capabilities: []*identity.Capability{service, s.operation},
	}, nil
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
