//go:build linux

// Package blockstorage simulates Cinder: volumes, their types, and snapshots. The simulator
// serves it, and package compute attaches its volumes.
//
// A volume is a sparse file. Snapshots and clones are copies of that file. If the file system of
// the state folder can share blocks (reflink), a copy of an attached volume contains what a server
// finds after a power failure. Otherwise the copy takes time, and writes during that time make it
// inconsistent.
package blockstorage

import (
	"context"
	"errors"
	"sync"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Config describes a Cinder.
type Config struct {
	// Folder is the folder of the cloud; without one, volumes have no data.
	Folder string
	Worker *state.Worker
	// Zones returns the names of the availability zones; volumes are in the first by default.
	Zones func() []string
}

// Service is a simulated Cinder. New creates it.
type Service struct {
	config   Config
	api      *rest.Service
	extended func(ctx context.Context, serverID, volumeID string) error

	mu        sync.Mutex // protects the fields below and their values; not held during an operation
	volumes   *rest.Store[*Volume]
	snapshots *rest.Store[*Snapshot]
}

// gibibyte is the unit of sizes in Cinder, in bytes.
const gibibyte = 1 << 30

// New returns a Cinder without volumes.
func New(config Config) (*Service, error) {
	s := &Service{config: config}
	volumes, errVolumes := state.NewData(config.Folder, "volumes")
	snapshots, errSnapshots := state.NewData(config.Folder, "snapshots")
	s.volumes = &rest.Store[*Volume]{
		Lock: &s.mu, Worker: config.Worker, Data: volumes, Name: "volume", Links: "volumes_links",
		Missing: missing("Volume"), Describe: describe, CanDelete: s.canDelete,
	}
	s.snapshots = &rest.Store[*Snapshot]{
		Lock: &s.mu, Worker: config.Worker, Data: snapshots, Name: "snapshot",
		Links: "snapshots_links", Missing: missing("Snapshot"), Describe: describeSnapshot,
		Summarize: summarizeSnapshot, CanDelete: canDeleteSnapshot,
		Keep: func(r *rest.Request, snapshot *Snapshot) bool {
			return r.Matches("volume_id", snapshot.VolumeID)
		},
	}
	s.api = s.newAPI()
	return s, errors.Join(errVolumes, errSnapshots)
}

// API returns the REST API.
func (s *Service) API() *rest.Service { return s.api }

// NotifyExtended sets the function that is called after an attached volume was extended. Call it
// before the first request.
func (s *Service) NotifyExtended(f func(ctx context.Context, serverID, volumeID string) error) {
	s.extended = f
}

// missing returns the error 404 of records of a kind.
func missing(kind string) func(id string) error {
	return func(id string) error { return rest.NotFound("%s %s could not be found.", kind, id) }
}

func (s *Service) newAPI() *rest.Service {
	api := rest.NewService(rest.Versions{
		Minimum: rest.Version{Major: 3, Minor: 0}, Maximum: rest.Version{Major: 3, Minor: 70},
		Service: "volume",
	})
	for pattern, handler := range map[string]rest.Handler{
		"GET /types":                listTypes,
		"GET /volumes/detail":       filtered(s.volumes.List, "name", "status"),
		"POST /volumes":             s.createVolume,
		"GET /volumes/{id}":         s.volumes.Show,
		"DELETE /volumes/{id}":      s.volumes.Delete,
		"POST /volumes/{id}/action": s.actOnVolume,
		"GET /snapshots":            filtered(s.snapshots.List, "name", "status", "volume_id"),
		"POST /snapshots":           s.createSnapshot,
		"GET /snapshots/{id}":       s.snapshots.Show,
		"DELETE /snapshots/{id}":    s.snapshots.Delete,
		// The driver asks whether a snapshot is a backup. There are no backups.
		"GET /backups/{id}": func(r *rest.Request) (rest.Answer, error) {
			return rest.Answer{}, rest.NotFound("Backup %s could not be found.", r.PathValue("id"))
		},
	} {
		api.Handle(pattern, handler)
	}
	return api
}
