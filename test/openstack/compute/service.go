//go:build linux

// Package compute simulates Nova: servers, volume attachments, and the metadata service. The
// simulator serves it. A server can have a Machine, which makes devices of its volumes.
package compute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// Status is one of the statuses of the API, ACTIVE if it is empty.
	Status string
	// Metadata of the server, which the metadata service contains too.
	Metadata map[string]string
	// MaxVolumes is the highest number of volumes that can be attached; 0 is no limit.
	MaxVolumes int
	// Machine attaches volumes. Without one, volumes are attached in the records only.
	Machine Machine
}

// Config describes a Nova.
type Config struct {
	Volumes *blockstorage.Service
	Worker  *state.Worker
	Now     func() time.Time
	// UserID and ProjectID return the owner of all servers.
	UserID, ProjectID func() string
}

// Service is a simulated Nova. New creates it. Servers are not state on disk: who runs them adds
// them after each start. Attachments belong to the volumes and are state on disk.
type Service struct {
	config Config
	api    *rest.Service

	mu      sync.Mutex // protects servers; held while an attachment begins
	servers []record
}

// record is a server and when it was added.
type record struct {
	Server
	created time.Time
}

// New returns a Nova without servers.
func New(config Config) *Service {
	s := &Service{config: config}
	s.api = rest.NewService(rest.Versions{
		Minimum: rest.Version{Major: 2, Minor: 1}, Maximum: rest.Version{Major: 2, Minor: 93},
		Service: "compute", Header: "X-OpenStack-Nova-API-Version",
	})
	const attachments = "/servers/{server}/os-volume_attachments"
	for pattern, handler := range map[string]rest.Handler{
		"GET /servers":                        s.listServers,
		"GET /servers/detail":                 s.listServers,
		"GET /servers/{server}":               s.showServer,
		"GET " + attachments:                  s.listAttachments,
		"POST " + attachments:                 s.attach,
		"GET " + attachments + "/{volume}":    s.showAttachment,
		"DELETE " + attachments + "/{volume}": s.detach,
	} {
		s.api.Handle(pattern, handler)
	}
	config.Volumes.NotifyExtended(s.resize)
	return s
}

// API returns the REST API.
func (s *Service) API() *rest.Service { return s.api }

// Add adds a server, or replaces the one with the same ID. Volumes that the state on disk attaches
// to it are attached to its Machine before Add returns; attachments that were not complete
// continue.
func (s *Service) Add(ctx context.Context, server Server) error {
	if server.ID == "" || server.Name == "" {
		return errors.New("a server needs an ID and a name")
	}
	if server.Status == "" {
		server.Status = "ACTIVE"
	}
	volumes := s.config.Volumes.Attachables(server.ID)
	for _, volume := range volumes {
		if server.Machine == nil || volume.Attachment.IsReserved() || volume.Attachment.IsDetaching() {
			continue
		}
		device, err := server.Machine.Attach(ctx, volume.VolumeID, volume.File)
		if err == nil {
			err = s.config.Volumes.CompleteAttachment(volume.VolumeID, server.ID, device)
		}
		if err != nil {
			return fmt.Errorf("attaching volume %s to %s again: %w", volume.VolumeID, server.Name, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = slices.DeleteFunc(s.servers, func(r record) bool { return r.ID == server.ID })
	s.servers = append(s.servers, record{Server: server, created: s.config.Now()})
	for _, volume := range volumes {
		switch {
		case volume.Attachment.IsReserved():
			s.startAttaching(server, volume, state.Outcome{})
		case volume.Attachment.IsDetaching():
			s.startDetaching(server, volume, state.Outcome{})
		}
	}
	return nil
}

// Remove deletes a server and detaches its volumes.
func (s *Service) Remove(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, err := s.server(id)
	if err != nil {
		return err
	}
	s.servers = slices.DeleteFunc(s.servers, func(r record) bool { return r.ID == id })
	var errs []error
	for _, volume := range s.config.Volumes.Attachables(id) {
		if server.Machine != nil {
			errs = append(errs, server.Machine.Detach(ctx, volume.VolumeID))
		}
		errs = append(errs, s.config.Volumes.RemoveAttachment(volume.VolumeID, id))
	}
	return errors.Join(errs...)
}

// SetStatus changes the status of a server, such as ACTIVE, BUILD, ERROR or SHUTOFF.
func (s *Service) SetStatus(id, status string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.servers, func(r record) bool { return r.ID == id })
	if i < 0 {
		return fmt.Errorf("server %q does not exist", id)
	}
	s.servers[i].Status = status
	return nil
}

// server returns a server, or the error 404.
func (s *Service) server(id string) (record, error) {
	i := slices.IndexFunc(s.servers, func(r record) bool { return r.ID == id })
	if i < 0 {
		return record{}, rest.NotFound("Instance %s could not be found.", id)
	}
	return s.servers[i], nil
}

// resize tells the machine of a server that a volume was extended.
func (s *Service) resize(ctx context.Context, serverID, volumeID string) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.servers, func(r record) bool { return r.ID == serverID })
	var machine Machine
	if i >= 0 {
		machine = s.servers[i].Machine
	}
	s.mu.Unlock()
	if machine == nil {
		return nil // a server that is not there finds the size when it is added
	}
	return machine.Resize(ctx, volumeID)
}

// vmState returns the name of a status in error messages.
func vmState(status string) string {
	switch status {
	case "BUILD":
		return "building"
	case "SHUTOFF":
		return "stopped"
	}
	return strings.ToLower(status)
}
