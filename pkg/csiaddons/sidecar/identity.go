package sidecar

import (
	"context"

	"github.com/csi-addons/spec/lib/go/identity"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
)

// identityService passes the identity of the driver on.
type identityService struct {
	identity.UnimplementedIdentityServer

	driver *driver.Client
}

// GetIdentity returns the name and the version of the driver.
func (i *identityService) GetIdentity(ctx context.Context, request *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return i.driver.Identity.GetIdentity(ctx, request)
}

// GetCapabilities returns the capabilities of the driver.
func (i *identityService) GetCapabilities(
	ctx context.Context, request *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	return i.driver.Identity.GetCapabilities(ctx, request)
}

// Probe returns whether the driver is ready.
func (i *identityService) Probe(ctx context.Context, request *identity.ProbeRequest,
) (*identity.ProbeResponse, error) {
	return i.driver.Identity.Probe(ctx, request)
}
