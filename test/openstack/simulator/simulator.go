package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Simulator is one simulated cloud. New creates it, Start makes it listen, Client controls it,
// Close stops it.
type Simulator struct {
	config    Config
	keystone  *keystone
	manila    *manila
	zones     *zones
	faults    *faultSet
	journal   *journal
	keyring   *keyring
	frontends []*frontend

	control *http.Server
	info    Info

	started sync.Once
	closing context.CancelFunc
	closed  context.Context
}

// Info contains the addresses of a running simulator.
type Info struct {
	// Control is the base URL of the control API, for NewClient.
	Control string `json:"control"`
	// AuthURL is the identity endpoint for clouds.yaml, with /v3.
	AuthURL string `json:"authURL"`
	// Endpoints of the services in the default region, as in the catalog.
	Endpoints map[Service]string `json:"endpoints"`
	// Regions of the catalog, the default one first.
	Regions []string `json:"regions"`
	// TLS means that endpoints use HTTPS with a private CA.
	TLS bool `json:"tls"`
}

// New returns a simulator that does not listen yet. Its error lists all problems of the
// configuration.
func New(config Config) (*Simulator, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("configuring the OpenStack simulator: %w", err)
	}
	s := &Simulator{
		config: config, faults: &faultSet{}, journal: newJournal(config.LogLimit, config.Now),
	}
	s.keystone = newKeystone(config)
	s.zones = newZones(config)
	// Close ends it, whatever context Start gets.
	s.closed, s.closing = context.WithCancel(context.Background())
	var err error
	if s.manila, err = newManila(config); err != nil {
		return nil, fmt.Errorf("configuring the OpenStack simulator: %w", err)
	}
	if config.TLS {
		if s.keyring, err = newKeyring(config.hosts()); err != nil {
			return nil, err
		}
	}
	s.frontends = s.newFrontends()
	return s, nil
}

// hosts are the names that the certificate is for.
func (c Config) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1"}
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	if c.AdvertisedHost != "" {
		hosts = append(hosts, c.AdvertisedHost)
	}
	return hosts
}

// newFrontends prepares the listeners: one for all services, or one for each.
func (s *Simulator) newFrontends() []*frontend {
	groups := map[string][]Service{"all": Services()}
	names := []string{"all"}
	if s.config.SeparatePorts {
		names = nil
		for _, service := range Services() {
			names = append(names, string(service))
			groups[string(service)] = []Service{service}
		}
	}
	var frontends []*frontend
	for _, name := range names {
		f := newFrontend(name, groups[name], http.HandlerFunc(s.serve))
		f.faults, f.journal, f.keyring = s.faults, s.journal, s.keyring
		frontends = append(frontends, f)
	}
	return frontends
}

// Start listens and serves until Close is called or the context ends. A simulator starts once.
func (s *Simulator) Start(ctx context.Context) error {
	err := errors.New("the OpenStack simulator has been started before")
	s.started.Do(func() { err = s.start(ctx) })
	return err
}

func (s *Simulator) start(ctx context.Context) error {
	address := s.config.Listen
	for _, f := range s.frontends {
		if err := f.listen(ctx, address); err != nil {
			return errors.Join(err, s.Close())
		}
		address = net.JoinHostPort(f.address.IP.String(), "0")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Control)
	if err != nil {
		return errors.Join(fmt.Errorf("listening for the control API: %w", err), s.Close())
	}
	s.info = s.describe("http://" + listener.Addr().String())
	s.control = &http.Server{Handler: s.controlHandler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.control.Serve(listener) }() // ends when Close closes the server
	for _, f := range s.frontends {
		f.serve()
	}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return nil
}

// Close stops listening, releases the requests that hang and closes all connections. It may be
// called again.
func (s *Simulator) Close() error {
	s.closing()
	var errs []error
	for _, f := range s.frontends {
		errs = append(errs, f.close())
	}
	if s.control != nil {
		errs = append(errs, s.control.Close())
	}
	return errors.Join(errs...)
}

// Info returns the addresses. Call it after Start.
func (s *Simulator) Info() Info { return s.info }

// describe fills the Info of a simulator that listens.
func (s *Simulator) describe(control string) Info {
	info := Info{
		Control:   control,
		Endpoints: map[Service]string{},
		Regions:   s.config.Regions,
		TLS:       s.config.TLS,
	}
	for _, service := range Services() {
		info.Endpoints[service] = s.endpoint(service, s.config.Regions[0]) + endpointVersion(service)
	}
	info.AuthURL = info.Endpoints[Identity]
	return info
}

// endpoint is the base URL of a service in a region, without version and final slash.
func (s *Simulator) endpoint(service Service, region string) string {
	scheme := "http"
	if s.config.TLS {
		scheme = "https"
	}
	base := scheme + "://" + s.authority(service)
	if region != s.config.Regions[0] {
		base += "/" + region
	}
	return base + "/" + string(service)
}

// authority returns the host and port of a service in URLs.
func (s *Simulator) authority(service Service) string {
	for _, f := range s.frontends {
		for _, served := range f.services {
			if served != service {
				continue
			}
			if s.config.AdvertisedHost == "" {
				return f.address.String()
			}
			return net.JoinHostPort(s.config.AdvertisedHost, fmt.Sprint(f.address.Port))
		}
	}
	return ""
}

// endpointVersion is what the catalog adds to a service's base URL.
func endpointVersion(service Service) string {
	return map[Service]string{Identity: "/v3", Share: "/v2", Compute: "/v2.1", Volume: "/v3"}[service]
}

// locate splits a URL path into region, service and the rest, which has no final slash.
func (s *Simulator) locate(path string) (region string, service Service, rest string) {
	region = s.config.Regions[0]
	elements := strings.Split(strings.Trim(path, "/"), "/")
	for _, other := range s.config.Regions[1:] {
		if elements[0] == other {
			region, elements = other, elements[1:]
			break
		}
	}
	if len(elements) == 0 || !known(Service(elements[0])) {
		return region, "", path
	}
	return region, Service(elements[0]), "/" + strings.Join(elements[1:], "/")
}
