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
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/uuid"

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

	volumeData, snapshotData state.Data

	mu        sync.Mutex // protects the fields below and their values; not held during an operation
	types     []string
	volumes   map[string]*Volume
	snapshots map[string]*Snapshot
	copies    map[string][]<-chan struct{} // by the ID of the source; closed when they are complete
}

// gibibyte is the unit of sizes in Cinder, in bytes.
const gibibyte = 1 << 30

// New returns a Cinder without volumes.
func New(config Config) (*Service, error) {
	s := &Service{
		config: config, types: []string{defaultType},
		volumes: map[string]*Volume{}, snapshots: map[string]*Snapshot{},
		copies: map[string][]<-chan struct{}{},
	}
	s.api = s.newAPI()
	var errVolumes, errSnapshots error
	s.volumeData, errVolumes = state.NewData(config.Folder, "volumes")
	s.snapshotData, errSnapshots = state.NewData(config.Folder, "snapshots")
	return s, errors.Join(errVolumes, errSnapshots)
}

// API returns the REST API.
func (s *Service) API() *rest.Service { return s.api }

// NotifyExtended sets the function that is called after an attached volume was extended. Call it
// before the first request.
func (s *Service) NotifyExtended(f func(ctx context.Context, serverID, volumeID string) error) {
	s.extended = f
}

// afterCopies returns the outcome of an operation that begins when all copies of a source are
// complete.
func (s *Service) afterCopies(sourceID string, outcome state.Outcome) state.Outcome {
	outcome.Held = append(slices.Clone(outcome.Held), s.copies[sourceID]...)
	delete(s.copies, sourceID)
	return outcome
}

// newID returns the ID of a new volume, snapshot or attachment.
func newID() string { return string(uuid.NewUUID()) }

func (s *Service) newAPI() *rest.Service {
	api := rest.NewService(rest.Versions{
		Minimum: rest.Version{Major: 3, Minor: 0}, Maximum: rest.Version{Major: 3, Minor: 70},
		Service: "volume",
	})
	for pattern, handler := range map[string]rest.Handler{
		"GET /types":                s.listTypes,
		"GET /volumes/detail":       s.listVolumes,
		"POST /volumes":             s.createVolume,
		"GET /volumes/{id}":         s.showVolume,
		"DELETE /volumes/{id}":      s.deleteVolume,
		"POST /volumes/{id}/action": s.actOnVolume,
		"GET /snapshots":            s.listSnapshots,
		"POST /snapshots":           s.createSnapshot,
		"GET /snapshots/{id}":       s.showSnapshot,
		"DELETE /snapshots/{id}":    s.deleteSnapshot,
		// The driver asks whether a snapshot is a backup. There are no backups.
		"GET /backups/{id}": func(r *rest.Request) (rest.Answer, error) {
			return rest.Answer{}, rest.NotFound("Backup %s could not be found.", r.PathValue("id"))
		},
	} {
		api.Handle(pattern, handler)
	}
	return api
}
