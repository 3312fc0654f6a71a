// Package identity serves identity.Identity of the CSI-Addons specification for the drivers of
// OpenStack. The adapter and the sidecar use it.
package identity

import (
	"context"

	"github.com/csi-addons/spec/lib/go/identity"

	"github.com/openstack-csi/csi-operator/pkg/version"
)

// Service serves identity.Identity.
type Service struct {
	identity.UnimplementedIdentityServer

	// Driver is the name of the CSI driver, which its CSIDriver has.
	Driver string
	// Kind is the service of the driver in the pod, and Operation what it does for CSI-Addons.
	Kind      identity.Capability_Service_Type
	Operation *identity.Capability
}

// GetIdentity returns the name of the CSI driver.
func (s Service) GetIdentity(context.Context, *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{
		Name: s.Driver, VendorVersion: version.Get().GitVersion,
	}, nil
}

// Probe always answers that the service is ready: it needs nothing before the first operation.
func (s Service) Probe(context.Context, *identity.ProbeRequest) (*identity.ProbeResponse, error) {
	return &identity.ProbeResponse{}, nil
}

// GetCapabilities returns the service of the driver in this pod, and its operation.
func (s Service) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	service := &identity.Capability{Type: &identity.Capability_Service_{
		Service: &identity.Capability_Service{Type: s.Kind},
	}}
	return &identity.GetCapabilitiesResponse{
		Capabilities: []*identity.Capability{service, s.Operation},
	}, nil
}

// Reclaims returns an operation that reclaims space.
func Reclaims(kind identity.Capability_ReclaimSpace_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_ReclaimSpace_{
		ReclaimSpace: &identity.Capability_ReclaimSpace{Type: kind},
	}}
}

// Fences returns an operation for fences.
func Fences(kind identity.Capability_NetworkFence_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_NetworkFence_{
		NetworkFence: &identity.Capability_NetworkFence{Type: kind},
	}}
}
