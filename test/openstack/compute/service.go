//go:build linux

// Package compute simulates Nova: servers, volume attachments, and the metadata service. The
// simulator serves it. A server can have a Machine, which makes devices of its volumes.
package compute

import (
	"context"
	"sync"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/blockstorage"
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Machine is the computer that a server stands for.
type Machine interface {
	// Attach makes a device of the file with the data of a volume, and returns its name, such as
	// /dev/loop3. Attaching a volume again that is attached is no error.
	Attach(ctx context.Context, volumeID, file string) (device string, err error)
	// Detach removes the device. Detaching a volume that is not attached is no error.
	Detach(ctx context.Context, volumeID string) error
	// Resize makes the device as large as the file.
	Resize(ctx context.Context, volumeID string) error
}

// Server is a server of Nova.
type Server struct {
	// ID is a UUID.
	ID, Name string
	// Zone is the availability zone.
	Zone string
	// Machine attaches volumes. Without one, volumes are attached in the records only.
	Machine Machine
}

// Config describes a Nova.
type Config struct {
	Volumes *blockstorage.Service
	Worker  *state.Worker
	// UserID and ProjectID return the owner of all servers.
	UserID, ProjectID func() string
}

// Service is a simulated Nova. New creates it. Attachments belong to the volumes.
type Service struct {
	config Config
	api    *rest.Service

	mu      sync.Mutex // protects servers; held while an attachment begins
	servers map[string]record
}

// record is a server and when it was added.
type record struct {
	Server
	created time.Time
}

// New returns a Nova without servers.
func New(config Config) *Service {
	s := &Service{config: config, servers: map[string]record{}}
	s.api = rest.NewService(rest.Versions{
		Minimum: rest.Version{Major: 2, Minor: 1}, Maximum: rest.Version{Major: 2, Minor: 93},
		Service: "compute", Header: "X-OpenStack-Nova-API-Version",
	})
	const attachments = "/servers/{server}/os-volume_attachments"
	for pattern, handler := range map[string]rest.Handler{
		"GET /servers/{server}":               s.showServer,
		"POST " + attachments:                 s.attach,
		"DELETE " + attachments + "/{volume}": s.detach,
	} {
		s.api.Handle(pattern, handler)
	}
	config.Volumes.NotifyExtended(s.resize)
	return s
}

// API returns the REST API.
func (s *Service) API() *rest.Service { return s.api }

// Add adds a server.
func (s *Service) Add(server Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[server.ID] = record{Server: server, created: time.Now()}
}

// server returns a server, or the error 404.
func (s *Service) server(id string) (record, error) {
	server, found := s.servers[id]
	if !found {
		return record{}, rest.NotFound("Instance %s could not be found.", id)
	}
	return server, nil
}

// resize tells the machine of a server that a volume was extended.
func (s *Service) resize(ctx context.Context, serverID, volumeID string) error {
	s.mu.Lock()
	machine := s.servers[serverID].Machine
	s.mu.Unlock()
	if machine == nil {
		return nil
	}
	return machine.Resize(ctx, volumeID)
}
