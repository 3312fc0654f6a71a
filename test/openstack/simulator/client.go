package simulator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rpc"
)

// Client controls the simulator of another process. It is safe for concurrent use.
type Client struct{ base string }

// NewClient returns a client for the control URL in Info.Control. It ignores proxies of the
// environment.
func NewClient(control string) *Client { return &Client{base: strings.TrimSuffix(control, "/")} }

// Info returns the addresses of the simulator.
func (c *Client) Info(ctx context.Context) (Info, error) { return fetch[Info](ctx, c, "info", nil) }

// CA returns the certificate of the private CA in PEM. It fails if the simulator serves plain HTTP.
func (c *Client) CA(ctx context.Context) ([]byte, error) { return fetch[[]byte](ctx, c, "ca", nil) }

// CloudsYAML returns a clouds.yaml with the credentials that Keystone accepts now.
func (c *Client) CloudsYAML(ctx context.Context, options Clouds) ([]byte, error) {
	text, err := fetch[string](ctx, c, "clouds", options)
	return []byte(text), err
}

// ShareTypes returns all share types, in the order of a listing.
func (c *Client) ShareTypes(ctx context.Context) ([]ShareType, error) {
	return fetch[[]ShareType](ctx, c, "types", nil)
}

// AddShareType creates a share type. It fails if there is one with the same name.
func (c *Client) AddShareType(ctx context.Context, shareType ShareType) (ShareType, error) {
	return fetch[ShareType](ctx, c, "add-type", shareType)
}

// RemoveShareType deletes the share type of that name.
func (c *Client) RemoveShareType(ctx context.Context, name string) error {
	return c.set(ctx, "remove-type", name)
}

// SetShareTypeOrder changes the order in which share types are listed.
func (c *Client) SetShareTypeOrder(ctx context.Context, order Order) error {
	return c.set(ctx, "order-types", order)
}

// Faults returns the active faults, with the number of their hits.
func (c *Client) Faults(ctx context.Context) ([]Fault, error) {
	return fetch[[]Fault](ctx, c, "faults", nil)
}

// SetFault activates a fault and returns it with its ID. It affects all later requests and
// connections.
func (c *Client) SetFault(ctx context.Context, fault Fault) (Fault, error) {
	return fetch[Fault](ctx, c, "set-fault", fault)
}

// ClearFaults removes the faults with the given IDs, or all if none is given, and releases held
// requests.
func (c *Client) ClearFaults(ctx context.Context, ids ...string) error {
	return c.set(ctx, "clear-faults", ids)
}

// RevokeTokens revokes all tokens and returns their number.
func (c *Client) RevokeTokens(ctx context.Context) (int, error) {
	return fetch[int](ctx, c, "revoke-tokens", nil)
}

// SetTokenTTL changes the lifetime of tokens that are issued later.
func (c *Client) SetTokenTTL(ctx context.Context, ttl time.Duration) error {
	return c.set(ctx, "token-ttl", ttl)
}

// Credentials returns the credentials that Keystone accepts now.
func (c *Client) Credentials(ctx context.Context) (Credentials, error) {
	return fetch[Credentials](ctx, c, "credentials", nil)
}

// RotateCredentials replaces the secrets of the password and of the application credential.
// Keystone refuses the old ones.
func (c *Client) RotateCredentials(ctx context.Context, rotation Rotation) (Credentials, error) {
	return fetch[Credentials](ctx, c, "rotate", rotation)
}

// Catalog returns the entries of the service catalog, including removed ones.
func (c *Client) Catalog(ctx context.Context) ([]CatalogEntry, error) {
	return fetch[[]CatalogEntry](ctx, c, "catalog", nil)
}

// RemoveFromCatalog removes a service type, such as sharev2, from the catalog of tokens that are
// issued later. A client that holds a token keeps its catalog; RevokeTokens makes it log in again.
func (c *Client) RemoveFromCatalog(ctx context.Context, serviceType string) error {
	return c.set(ctx, "set-catalog", CatalogEntry{Type: serviceType, Removed: true})
}

// RestoreToCatalog undoes RemoveFromCatalog.
func (c *Client) RestoreToCatalog(ctx context.Context, serviceType string) error {
	return c.set(ctx, "set-catalog", CatalogEntry{Type: serviceType})
}

// Zones returns the availability zones of Compute or Volume.
func (c *Client) Zones(ctx context.Context, service Service) ([]Zone, error) {
	return fetch[[]Zone](ctx, c, "zones", service)
}

// SetZones replaces the availability zones of Compute or Volume.
func (c *Client) SetZones(ctx context.Context, service Service, zones ...Zone) error {
	return c.set(ctx, "set-zones", zoneList{Service: service, Zones: zones})
}

// Log returns the requests with a number above since, oldest first. With 0 it returns all that are
// kept.
func (c *Client) Log(ctx context.Context, since int) ([]Request, error) {
	return fetch[[]Request](ctx, c, "log", since)
}

// Counters returns the counters since the start or the last ResetLog.
func (c *Client) Counters(ctx context.Context) (Counters, error) {
	return fetch[Counters](ctx, c, "counters", nil)
}

// ResetLog removes all requests from the log and resets the counters.
func (c *Client) ResetLog(ctx context.Context) error { return c.set(ctx, "reset-log", nil) }

// set calls a function that returns nothing.
func (c *Client) set(ctx context.Context, name string, in any) error {
	_, err := fetch[rpc.None](ctx, c, name, in)
	return err
}

func fetch[Out any](ctx context.Context, c *Client, name string, in any) (Out, error) {
	out, err := rpc.Call[Out](ctx, c.base, name, in)
	if err != nil {
		return out, fmt.Errorf("controlling the OpenStack simulator: %w", err)
	}
	return out, nil
}
