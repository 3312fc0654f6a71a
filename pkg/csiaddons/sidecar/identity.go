package sidecar

import (
	"context"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
)

// calls contains what a call of the driver needs.
type calls struct {
	driver  *driver.Client
	timeout time.Duration
}

// limit returns the context of one call.
func (c calls) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// identityService passes the identity of the driver on.
type identityService struct {
	identity.UnimplementedIdentityServer
	calls
}

// GetIdentity returns the name and the version of the driver.
func (i *identityService) GetIdentity(ctx context.Context, request *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	ctx, cancel := i.limit(ctx)
	defer cancel()
	return i.driver.Identity.GetIdentity(ctx, request)
}

// GetCapabilities returns the capabilities of the driver.
func (i *identityService) GetCapabilities(
	ctx context.Context, request *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	ctx, cancel := i.limit(ctx)
	defer cancel()
	return i.driver.Identity.GetCapabilities(ctx, request)
}

// Probe returns whether the driver is ready.
func (i *identityService) Probe(ctx context.Context, request *identity.ProbeRequest,
) (*identity.ProbeResponse, error) {
	ctx, cancel := i.limit(ctx)
	defer cancel()
	return i.driver.Identity.Probe(ctx, request)
}
