// Package compute simulates Nova: servers, volume attachments, and the metadata service. The
// simulator serves it. A server can have a Machine, which makes devices of its volumes.
package compute

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
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
	// Status is ACTIVE if it is empty.
	Status string
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
	// API is the REST API.
	API *rest.Service

	config  Config
	servers map[string]record // the lock of the worker protects them
}

type record struct {
	Server
	created time.Time
}

// New returns a Nova without servers.
func New(config Config) *Service {
	s := &Service{config: config, servers: map[string]record{}}
	s.API = rest.NewService(rest.Versions{
		Minimum: rest.Version{Major: 2, Minor: 1}, Maximum: rest.Version{Major: 2, Minor: 93},
		Service: "compute", Header: "X-OpenStack-Nova-API-Version",
	}, config.Worker, map[string]rest.Handler{
		"GET /servers":          s.listServers,
		"GET /servers/{server}": s.showServer,
		"POST /servers/{server}/os-volume_attachments":            s.attach,
		"DELETE /servers/{server}/os-volume_attachments/{volume}": s.detach,
	})
	return s
}

// Add adds a server.
func (s *Service) Add(server Server) {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	s.servers[server.ID] = record{Server: server, created: time.Now()}
}

// Remove deletes a server, but not the attachments of its volumes.
func (s *Service) Remove(id string) {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	delete(s.servers, id)
}

func (s *Service) server(id string) (record, error) {
	server, found := s.servers[id]
	if !found {
		return record{}, rest.NotFound("Instance %s could not be found.", id)
	}
	return server, nil
}

// Resize tells the machine of a server that a volume was extended.
func (s *Service) Resize(ctx context.Context, serverID, volumeID string) error {
	s.config.Worker.Lock()
	machine := s.servers[serverID].Machine
	s.config.Worker.Unlock()
	if machine == nil {
		return nil
	}
	return machine.Resize(ctx, volumeID)
}

// listServers answers with all servers in one page; API reference: List Servers.
func (s *Service) listServers(r *rest.Request) (rest.Answer, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(s.servers)) {
		list = append(list, map[string]any{
			"id": id, "name": s.servers[id].Name, "links": r.Links("servers", id),
		})
	}
	return rest.Answer{Content: map[string]any{"servers": list}}, nil
}

func (s *Service) showServer(r *rest.Request) (rest.Answer, error) {
	server, err := s.server(r.PathValue("server"))
	if err != nil {
		return rest.Answer{}, err
	}
	return rest.Answer{Content: map[string]any{"server": s.describe(r, server)}}, nil
}

// describe returns a server with the fields that a user sees, without its volumes; API reference:
// Show Server Details. The flavor has its fields since 2.47 for any version, and there are no
// addresses and no image.
func (s *Service) describe(r *rest.Request, server record) map[string]any {
	// Nova writes these times with a zone and without fractions.
	created := server.created.UTC().Format(time.RFC3339)
	return map[string]any{
		"id": server.ID, "name": server.Name, "status": cmp.Or(server.Status, "ACTIVE"), "progress": 0,
		"tenant_id": s.config.ProjectID(), "user_id": s.config.UserID(),
		"metadata": map[string]string{},
		"hostId":   state.NamedID("host", server.ID), "image": "",
		"flavor": map[string]any{
			"vcpus": 2, "ram": 4096, "disk": 20, "ephemeral": 0, "swap": 0, "original_name": "m1.node",
			"extra_specs": map[string]string{},
		},
		"created": created, "updated": created, "addresses": map[string]any{},
		"accessIPv4": "", "accessIPv6": "", "links": r.Links("servers", server.ID),
		"OS-DCF:diskConfig": "MANUAL", "OS-EXT-AZ:availability_zone": server.Zone, "config_drive": "",
		"key_name": nil, "OS-SRV-USG:launched_at": rest.Time(server.created),
		"OS-SRV-USG:terminated_at": nil, "OS-EXT-STS:task_state": nil,
		"OS-EXT-STS:vm_state": "active", "OS-EXT-STS:power_state": 1,
	}
}

// Metadata returns the metadata service of a server, which the server finds at 169.254.169.254. It
// serves meta_data.json of every version; Compute documentation: Metadata service.
func (s *Service) Metadata(serverID string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openstack/{version}/meta_data.json",
		func(w http.ResponseWriter, _ *http.Request) {
			s.config.Worker.Lock()
			server, err := s.server(serverID)
			s.config.Worker.Unlock()
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{ // the client is gone if this fails
				"uuid": server.ID, "name": server.Name, "hostname": server.Name, "launch_index": 0,
				"availability_zone": server.Zone, "project_id": s.config.ProjectID(), "devices": []any{},
				"dedicated_cpus": []int{},
			})
		})
	return mux
}
