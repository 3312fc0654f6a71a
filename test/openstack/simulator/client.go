package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client drives a running simulator through its control API. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

// ControlError is a refusal by the control API.
type ControlError struct {
	// Status is 400, 404 for what does not exist or 409 for what exists already.
	Status int
	// Message says what was wrong.
	Message string
}

// Error returns the message.
func (e *ControlError) Error() string { return e.Message }

// pollInterval is how often WaitRequest looks.
const pollInterval = 10 * time.Millisecond

// NewClient returns a client for the control URL that Info.Control gives. Proxies of the environment are not used.
func NewClient(control string) *Client {
	transport := &http.Transport{DisableKeepAlives: true} // leaves no connection behind in tests that look for leaks
	return &Client{base: strings.TrimSuffix(control, "/") + controlPrefix, http: &http.Client{Transport: transport}}
}

// Info says where the simulator is.
func (c *Client) Info(ctx context.Context) (Info, error) {
	return fetch[Info](ctx, c, http.MethodGet, "/info", nil)
}

// CA returns the certificate of the private CA in PEM; an error if the simulator serves plain HTTP.
func (c *Client) CA(ctx context.Context) ([]byte, error) {
	return fetch[[]byte](ctx, c, http.MethodGet, "/ca", nil)
}

// CloudsYAML returns a clouds.yaml with the credentials that are accepted now.
func (c *Client) CloudsYAML(ctx context.Context, options Clouds) ([]byte, error) {
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("writing the options of clouds.yaml: %w", err)
	}
	query := url.Values{"options": {string(encoded)}}
	text, err := fetch[string](ctx, c, http.MethodGet, "/clouds?"+query.Encode(), nil)
	return []byte(text), err
}

// ShareTypes lists all share types, in the order that a listing has now.
func (c *Client) ShareTypes(ctx context.Context) ([]ShareType, error) {
	return fetch[[]ShareType](ctx, c, http.MethodGet, "/types", nil)
}

// AddShareType creates a share type; a second one of the same name is refused with status 409.
func (c *Client) AddShareType(ctx context.Context, shareType ShareType) (ShareType, error) {
	return fetch[ShareType](ctx, c, http.MethodPost, "/types", shareType)
}

// RemoveShareType deletes the share type of that name.
func (c *Client) RemoveShareType(ctx context.Context, name string) error {
	return c.order(ctx, http.MethodDelete, "/types?"+url.Values{"name": {name}}.Encode(), nil)
}

// SetShareTypeOrder changes the order in which share types are listed.
func (c *Client) SetShareTypeOrder(ctx context.Context, order Order) error {
	return c.order(ctx, http.MethodPut, "/types/order", controlOrder{Order: order})
}

// Faults lists the faults that are switched on, with how often they struck.
func (c *Client) Faults(ctx context.Context) ([]Fault, error) {
	return fetch[[]Fault](ctx, c, http.MethodGet, "/faults", nil)
}

// SetFault switches a fault on and returns it with its ID. It works from the next request or connection on.
func (c *Client) SetFault(ctx context.Context, fault Fault) (Fault, error) {
	return fetch[Fault](ctx, c, http.MethodPost, "/faults", fault)
}

// ClearFaults switches off the faults with the given IDs, or all if none is given, and releases what they hold.
func (c *Client) ClearFaults(ctx context.Context, ids ...string) error {
	return c.order(ctx, http.MethodDelete, "/faults?"+url.Values{"id": ids}.Encode(), nil)
}

// RevokeTokens ends all tokens and returns how many there were.
func (c *Client) RevokeTokens(ctx context.Context) (int, error) {
	result, err := fetch[controlCount](ctx, c, http.MethodPost, "/tokens/revoke", nil)
	return result.Count, err
}

// SetTokenTTL changes the life of the tokens issued from now on.
func (c *Client) SetTokenTTL(ctx context.Context, ttl time.Duration) error {
	return c.order(ctx, http.MethodPut, "/tokens/ttl", controlTTL{TTL: ttl})
}

// Credentials returns what Keystone accepts now.
func (c *Client) Credentials(ctx context.Context) (Credentials, error) {
	return fetch[Credentials](ctx, c, http.MethodGet, "/credentials", nil)
}

// RotateCredentials changes the accepted secrets, of both the password and the application credential; the old ones
// are refused from then on.
func (c *Client) RotateCredentials(ctx context.Context, rotation Rotation) (Credentials, error) {
	return fetch[Credentials](ctx, c, http.MethodPost, "/credentials", rotation)
}

// Catalog lists the entries of the service catalog, the removed ones included.
func (c *Client) Catalog(ctx context.Context) ([]CatalogEntry, error) {
	return fetch[[]CatalogEntry](ctx, c, http.MethodGet, "/catalog", nil)
}

// RemoveFromCatalog takes a service type, such as sharev2, out of the catalog of the tokens issued from now on.
// Clients that hold a token keep the catalog that came with it: revoke the tokens to make them see the change.
func (c *Client) RemoveFromCatalog(ctx context.Context, serviceType string) error {
	return c.order(ctx, http.MethodPut, "/catalog", CatalogEntry{Type: serviceType, Removed: true})
}

// RestoreToCatalog undoes RemoveFromCatalog.
func (c *Client) RestoreToCatalog(ctx context.Context, serviceType string) error {
	return c.order(ctx, http.MethodPut, "/catalog", CatalogEntry{Type: serviceType})
}

// Zones lists the availability zones of Compute or Volume.
func (c *Client) Zones(ctx context.Context, service Service) ([]Zone, error) {
	return fetch[[]Zone](ctx, c, http.MethodGet, "/zones/"+url.PathEscape(string(service)), nil)
}

// SetZones replaces the availability zones of Compute or Volume.
func (c *Client) SetZones(ctx context.Context, service Service, zones ...Zone) error {
	return c.order(ctx, http.MethodPut, "/zones/"+url.PathEscape(string(service)), append([]Zone{}, zones...))
}

// Log lists the requests with a number above since, oldest first; 0 lists all that are kept.
func (c *Client) Log(ctx context.Context, since int) ([]Request, error) {
	return fetch[[]Request](ctx, c, http.MethodGet, "/log?since="+strconv.Itoa(since), nil)
}

// Counters returns the sums since the start or the last ResetLog.
func (c *Client) Counters(ctx context.Context) (Counters, error) {
	return fetch[Counters](ctx, c, http.MethodGet, "/counters", nil)
}

// ResetLog forgets all requests and sets the counters to zero.
func (c *Client) ResetLog(ctx context.Context) error {
	return c.order(ctx, http.MethodDelete, "/log", nil)
}

// WaitRequest waits until a request with a number above since matches, and returns it. The context bounds the wait.
func (c *Client) WaitRequest(ctx context.Context, since int, match func(Request) bool) (Request, error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		requests, err := c.Log(ctx, since)
		if err != nil {
			return Request{}, err
		}
		for _, request := range requests {
			if match(request) {
				return request, nil
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return Request{}, fmt.Errorf("waiting for a matching one of %d requests: %w", len(requests), ctx.Err())
		}
	}
}

// order sends a request whose answer says nothing.
func (c *Client) order(ctx context.Context, method, path string, content any) error {
	_, err := fetch[any](ctx, c, method, path, content)
	return err
}

// fetch sends a request and reads the answer.
func fetch[T any](ctx context.Context, c *Client, method, path string, content any) (T, error) {
	var result T
	failed := func(err error) (T, error) {
		return result, fmt.Errorf("controlling the OpenStack simulator: %w", err)
	}
	body, err := json.Marshal(content)
	if err != nil {
		return failed(err)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return failed(err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode != http.StatusOK {
		failure := controlFailure{Error: response.Status} // stays if the answer is not from a simulator
		_ = decoder.Decode(&failure)
		return failed(&ControlError{Status: response.StatusCode, Message: failure.Error})
	}
	if err := decoder.Decode(&result); err != nil {
		return failed(err)
	}
	return result, nil
}
