package services

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Cloud is an OpenStack in which the real services answer requests. The simulator is in front of
// them, with its listeners, TLS, faults and log. Each Cloud has its own project, user and catalog.
// The catalog contains the addresses of the simulator. Share types belong to a project, but
// availability zones belong to the services, so only one Cloud at a time may change them.
//
// A method without an error result keeps its error for Close.
type Cloud struct {
	*simulator.Simulator // set by Start

	access Access
	config simulator.Config
	ctx    context.Context
	admin  *admin

	mu        sync.Mutex // protects the fields below
	failures  []error
	types     []simulator.ShareType
	endpoints map[string][]string // IDs by type in the catalog
	removed   map[string]bool     // types that the catalog omits
	revoked   []string
	// applicationCredential is true once there is one.
	applicationCredential bool
	zones                 map[simulator.Service][]simulator.Zone // those that this Cloud has set
}

// NewCloud returns a Cloud that Start creates. The configuration is that of the simulator, without
// Upstream. The order of share types, and IDs of credentials, are those of the services.
func NewCloud(access Access, config simulator.Config) *Cloud {
	return &Cloud{
		access: access, config: config, endpoints: map[string][]string{}, removed: map[string]bool{},
		zones: map[simulator.Service][]simulator.Zone{},
	}
}

// Start creates the project and the user, listens, and creates the catalog. The context bounds
// later requests too.
func (c *Cloud) Start(ctx context.Context) error {
	var err error
	c.ctx = ctx
	if c.admin, err = c.access.admin(ctx); err != nil {
		return err
	}
	if c.config.Credentials, err = c.admin.createUser(ctx, c.config.Credentials); err != nil {
		return err
	}
	c.config.Upstream = c.upstream()
	if c.Simulator, err = simulator.New(c.config); err != nil {
		return err
	}
	if err := c.Simulator.Start(ctx); err != nil {
		return err
	}
	if err := c.fill(); err != nil {
		return errors.Join(err, c.Close()) //nolint:contextcheck // c.ctx bounds it
	}
	return nil
}

// fill creates what the configuration describes besides the user.
func (c *Cloud) fill() error {
	for _, region := range c.Info().Regions {
		if err := c.createEndpoints(region); err != nil {
			return err
		}
	}
	for _, shareType := range c.config.ShareTypes {
		if err := c.AddShareType(shareType); err != nil {
			return err
		}
	}
	err := errors.Join(c.SetQuotas(simulator.Volume, c.config.VolumeQuotas...),
		c.SetQuotas(simulator.Share, c.config.ShareQuotas...))
	if err != nil {
		return err
	}
	for service, zones := range map[simulator.Service][]simulator.Zone{
		simulator.Compute: c.config.ComputeZones, simulator.Volume: c.config.VolumeZones,
		simulator.Share: c.config.ShareZones,
	} {
		if len(zones) == 0 {
			continue
		}
		if err := c.SetZones(service, zones...); err != nil {
			return err
		}
	}
	return nil
}

// Close stops listening, resets the availability zones that the Cloud has set, and removes its
// endpoints. It returns the errors of earlier methods too.
func (c *Cloud) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := slices.Concat(c.failures, []error{c.Simulator.Close()})
	for service := range c.zones {
		errs = append(errs, c.access.SetZones(context.WithoutCancel(c.ctx), service,
			simulator.Zone{Name: "nova"}))
	}
	clear(c.zones)
	for _, ids := range c.endpoints {
		for _, id := range ids {
			errs = append(errs, c.admin.deleteEndpoint(context.WithoutCancel(c.ctx), id))
		}
	}
	clear(c.endpoints)
	return errors.Join(errs...)
}

// keep keeps an error for Close.
func (c *Cloud) keep(doing string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failures = append(c.failures, fmt.Errorf("%s: %w", doing, err))
	}
}

// upstream forwards requests from the addresses of the simulator to the services: the first
// elements of the path, region and service, become a host.
func (c *Cloud) upstream() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			prefix, service, rest := c.locate(r.In.URL.Path)
			r.Out.Header.Set("X-Forwarded-Prefix", prefix)
			if service == keystone && 0 < c.config.TokenTTL && c.config.TokenTTL <= BriefTTL {
				service = brief
			}
			r.Out.URL.Scheme, r.Out.URL.Host = "http", c.access.Addresses[service]
			r.Out.URL.Path, r.Out.URL.RawPath = rest, ""
		},
		// The default one logs each client that leaves early.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
}

// locate splits a URL path of the simulator into region and service, the name of the program that
// serves it, and the path that the program gets.
func (c *Cloud) locate(path string) (prefix, program, rest string) {
	elements := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, element := range elements {
		for _, k := range kinds() {
			if element == string(k.service) {
				return "/" + strings.Join(elements[:i+1], "/"), k.program,
					"/" + strings.Join(elements[i+1:], "/")
			}
		}
	}
	return "", keystone, path
}

// ShareTypes returns the share types that the project may use or that another project owns, in the
// order in which they were added.
func (c *Cloud) ShareTypes() []simulator.ShareType {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.types)
}

// AddShareType lets the project use a share type. It creates the type if it does not exist.
func (c *Cloud) AddShareType(added simulator.ShareType) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.types, func(t simulator.ShareType) bool { return t.Name == added.Name }) {
		return fmt.Errorf("share type %q exists already", added.Name)
	}
	if err := c.admin.addShareType(c.ctx, added, c.config.Credentials.ProjectID); err != nil {
		return err
	}
	c.types = append(c.types, added)
	return nil
}

// RemoveShareType takes a share type from the project.
func (c *Cloud) RemoveShareType(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.types, func(t simulator.ShareType) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("share type %q does not exist", name)
	}
	if !c.types[i].Private {
		err := c.admin.removeShareType(c.ctx, name, c.config.Credentials.ProjectID)
		if err != nil {
			return err
		}
	}
	c.types = slices.Delete(c.types, i, i+1)
	return nil
}

// ReverseShareTypes does nothing: Manila decides the order, and promises none.
func (c *Cloud) ReverseShareTypes() {}

// SetQuotas sets limits of Volume or Share for the project, its user or its share types.
func (c *Cloud) SetQuotas(service simulator.Service, limits ...simulator.Quota) error {
	return c.admin.setQuotas(c.ctx, service, c.config.Credentials, limits)
}

// SetStatus changes the status of a volume or a share, and adds messages that say why.
func (c *Cloud) SetStatus(
	service simulator.Service, id, status string, reasons ...simulator.Reason,
) error {
	if service != simulator.Volume && service != simulator.Share {
		return fmt.Errorf("service %q has no such status", service)
	}
	return c.access.rewrite(c.ctx, "status", service, map[string]any{
		"ID": id, "ProjectID": c.config.Credentials.ProjectID, "Status": status, "Reasons": reasons,
	})
}

// Zones returns the availability zones of Compute, Volume or Share.
func (c *Cloud) Zones(service simulator.Service) []simulator.Zone {
	c.mu.Lock()
	defer c.mu.Unlock()
	if zones, set := c.zones[service]; set {
		return slices.Clone(zones)
	}
	return []simulator.Zone{{Name: "nova"}}
}

// SetZones replaces the availability zones of Compute, Volume or Share.
func (c *Cloud) SetZones(service simulator.Service, zones ...simulator.Zone) error {
	if service == simulator.Identity {
		return fmt.Errorf("service %q has no availability zones that a test can change", service)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.zones[service] = zones
	return c.access.SetZones(c.ctx, service, zones...)
}

// RemoveFromCatalog removes a service type, such as sharev2, from the catalog of the project.
func (c *Cloud) RemoveFromCatalog(serviceType string) { c.list(serviceType, false) }

// RestoreToCatalog undoes RemoveFromCatalog.
func (c *Cloud) RestoreToCatalog(serviceType string) { c.list(serviceType, true) }

// list changes whether the catalog contains a service type.
func (c *Cloud) list(serviceType string, listed bool) {
	c.mu.Lock()
	unchanged := c.removed[serviceType] != listed
	c.removed[serviceType] = !listed
	ids := c.endpoints[serviceType]
	c.mu.Unlock()
	if unchanged {
		return
	}
	for _, id := range ids {
		c.keep("changing the catalog",
			c.admin.listEndpoint(c.ctx, c.config.Credentials.ProjectID, id, listed))
	}
}

func (c *Cloud) createEndpoints(region string) error {
	if err := c.admin.createRegion(c.ctx, region); err != nil {
		return err
	}
	for _, k := range kinds() {
		id, err := c.admin.createEndpoint(c.ctx, region, k, c.address(k, region))
		if err != nil {
			return err
		}
		c.endpoints[k.entry] = append(c.endpoints[k.entry], id)
		err = c.admin.listEndpoint(c.ctx, c.config.Credentials.ProjectID, id, true)
		if err != nil {
			return err
		}
	}
	return nil
}

// address returns the URL of a service in a region, at the simulator.
func (c *Cloud) address(k kind, region string) string {
	endpoint, err := url.Parse(c.Info().Endpoints[k.service])
	if err != nil || region == c.Info().Regions[0] {
		return c.Info().Endpoints[k.service] // it parses: the simulator has made it
	}
	endpoint.Path = "/" + region + endpoint.Path
	return endpoint.String()
}
