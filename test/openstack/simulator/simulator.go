package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/blockstorage"
	"github.com/openstack-csi/csi-operator/test/openstack/compute"
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/sharedfilesystems"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Simulator is one simulated cloud. New creates it, Start makes it listen, Close stops it.
type Simulator struct {
	config    Config
	keyring   *keyring // nil without TLS
	frontends []*frontend
	info      Info
	closed    context.Context
	closing   context.CancelFunc
	faults    faultSet
	journal   *journal

	worker  *state.Worker
	volumes *blockstorage.Service
	servers *compute.Service
	shares  *sharedfilesystems.Service
	apis    map[Service]*rest.Service

	mu          sync.Mutex // protects the fields below
	credentials Credentials
	tokens      map[string]time.Time // expiry by ID
	issued      []string             // IDs of all tokens, revoked ones included
	removed     map[string]bool      // service types that the catalog omits
	zones       map[Service][]Zone
}

// Info contains the addresses of a running simulator.
type Info struct {
	// AuthURL is the identity endpoint for clouds.yaml, with /v3.
	AuthURL string
	// Endpoints of the services in the default region, as in the catalog.
	Endpoints map[Service]string
	// Regions of the catalog, the default one first.
	Regions []string
	// TLS means that endpoints use HTTPS with a private CA.
	TLS bool
}

// New returns a simulator that does not listen yet.
func New(config Config) (_ *Simulator, err error) {
	config = config.withDefaults()
	s := &Simulator{
		config: config, journal: newJournal(), credentials: config.Credentials,
		tokens: map[string]time.Time{}, removed: map[string]bool{},
		zones: map[Service][]Zone{
			Compute: config.ComputeZones, Volume: config.VolumeZones, Share: config.ShareZones,
		},
	}
	if config.TLS {
		s.keyring, err = newKeyring([]string{
			"localhost", config.Host, cmp.Or(config.AdvertisedHost, config.Host),
		})
		if err != nil {
			return nil, fmt.Errorf("creating the certificates of the OpenStack simulator: %w", err)
		}
	}
	// Close ends it, whatever context Start gets.
	s.closed, s.closing = context.WithCancel(context.Background())
	groups := [][]Service{Services()}
	if config.SeparatePorts {
		groups = [][]Service{{Identity}, {Share}, {Compute}, {Volume}}
	}
	for _, services := range groups {
		s.frontends = append(s.frontends, newFrontend(s, services))
	}
	s.worker = state.NewWorker(config.OperationTime, config.Report)
	if err := s.addServices(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Simulator) addServices() (err error) {
	names := func(service Service) func() []string {
		return func() []string { return s.zoneNames(service) }
	}
	s.volumes, err = blockstorage.New(blockstorage.Config{
		Folder: s.config.State, Worker: s.worker, Zones: names(Volume),
		Extended: func(ctx context.Context, serverID, volumeID string) error {
			return s.servers.Resize(ctx, serverID, volumeID)
		},
	})
	if err != nil {
		return err
	}
	s.servers = compute.New(compute.Config{
		Volumes: s.volumes, Worker: s.worker,
		UserID:    func() string { return s.Credentials().UserID },
		ProjectID: func() string { return s.Credentials().ProjectID },
	})
	s.shares, err = sharedfilesystems.New(sharedfilesystems.Config{
		Folder: s.config.State, Worker: s.worker, Zones: names(Share), Types: s.config.ShareTypes,
		Host: s.config.Host,
	})
	if err != nil {
		return err
	}
	s.volumes.SetQuotas(s.config.VolumeQuotas...)
	s.shares.SetQuotas(s.config.ShareQuotas...)
	s.apis = map[Service]*rest.Service{
		Volume: s.volumes.API, Compute: s.servers.API, Share: s.shares.API,
	}
	for _, service := range []Service{Compute, Volume} {
		s.apis[service].Handle("GET /os-availability-zone", s.zoneList(service))
	}
	s.apis[Share].Handle("GET /availability-zones", s.listShareZones)
	return nil
}

// Start listens and serves until Close is called or the context ends. A simulator starts once.
func (s *Simulator) Start(ctx context.Context) error {
	for _, f := range s.frontends {
		if err := f.open(); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	s.info = Info{Endpoints: map[Service]string{}, Regions: s.config.Regions, TLS: s.config.TLS}
	for _, service := range Services() {
		s.info.Endpoints[service] = s.endpoint(service, s.config.Regions[0])
	}
	s.info.AuthURL = s.info.Endpoints[Identity]
	for _, f := range s.frontends {
		f.serve()
	}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return nil
}

// Close stops listening, releases the requests that hang, closes all connections and ends the
// operations of services. It may be called again.
func (s *Simulator) Close() error {
	s.closing()
	var errs []error
	for _, f := range s.frontends {
		errs = append(errs, f.close())
	}
	s.worker.Close()
	return errors.Join(errs...)
}

// Info returns the addresses. Call it after Start.
func (s *Simulator) Info() Info { return s.info }

// endpoint returns the URL of a service in a region, as in the catalog.
func (s *Simulator) endpoint(service Service, region string) string {
	base := "http://"
	if s.config.TLS {
		base = "https://"
	}
	base += s.authority(service)
	if region != s.config.Regions[0] {
		base += "/" + region
	}
	return base + "/" + string(service) + versionPath(service)
}

// versionPath returns the part of the path of a service that contains the version of its API.
func versionPath(service Service) string {
	paths := map[Service]string{Identity: "/v3", Share: "/v2", Compute: "/v2.1", Volume: "/v3"}
	return paths[service]
}

// authority returns the host and port of a service in URLs.
func (s *Simulator) authority(service Service) string {
	i := slices.IndexFunc(s.frontends,
		func(f *frontend) bool { return slices.Contains(f.services, service) })
	address := s.frontends[i].address
	if s.config.AdvertisedHost == "" {
		return address.String()
	}
	return net.JoinHostPort(s.config.AdvertisedHost, fmt.Sprint(address.Port))
}

// locate splits a URL path into region, service and the rest, which has no final slash.
func (s *Simulator) locate(path string) (region string, service Service, rest string) {
	region = s.config.Regions[0]
	first, rest, _ := strings.Cut(strings.Trim(path, "/"), "/")
	if slices.Contains(s.config.Regions[1:], first) {
		region = first
		first, rest, _ = strings.Cut(rest, "/")
	}
	if !slices.Contains(Services(), Service(first)) {
		return region, "", path
	}
	return region, Service(first), "/" + rest
}
