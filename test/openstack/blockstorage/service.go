//go:build linux

// Package blockstorage simulates Cinder: volumes, snapshots, backups, volume types, quotas. The
// simulator serves it, and package compute attaches its volumes.
//
// A volume is a sparse file. Snapshots, backups and clones are copies of that file. If the file
// system of the state folder can share blocks (reflink), a copy of an attached volume contains what
// a server finds after a power failure. Otherwise the copy takes time, and writes during that time
// make it inconsistent.
package blockstorage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Config describes a Cinder.
type Config struct {
	Folder state.Folder
	Worker *state.Worker
	Now    func() time.Time
	// Zones returns the names of the availability zones; volumes are in the first by default.
	Zones func() []string
	// Types are the volume types, the default one first. If there is none, there is one called
	// __DEFAULT__.
	Types []Type
	Quota Quota
}

// Type is a volume type.
type Type struct {
	Name string
	// Multiattach volumes can be attached to several servers.
	Multiattach bool
	// ExtraSpecs that users see.
	ExtraSpecs map[string]string
}

// Quota is the quota of the project. Zero is no limit.
type Quota struct {
	Volumes, Snapshots, Backups int
	// Gigabytes of all volumes and snapshots.
	Gigabytes int
	// VolumeGigabytes is the limit for one volume.
	VolumeGigabytes int
	// BackupGigabytes of all backups.
	BackupGigabytes int
}

// Service is a simulated Cinder. New creates it.
type Service struct {
	config Config
	api    *rest.Service

	mu        sync.Mutex // held while a record is read and changed, and not during an operation
	quota     Quota
	volumes   *state.Table[Volume]
	snapshots *state.Table[Snapshot]
	backups   *state.Table[Backup]
	copies    map[string][]<-chan struct{} // by the ID of the source; closed when they are complete
	extended  func(ctx context.Context, serverID, volumeID string) error

	volumeData, snapshotData, backupData state.Data
}

// gibibyte is the unit of sizes in Cinder, in bytes.
const gibibyte = 1 << 30

// New returns a Cinder with the records of the folder. Resume continues its operations.
func New(config Config) (s *Service, err error) {
	if len(config.Types) == 0 {
		config.Types = []Type{{Name: defaultType}}
	}
	s = &Service{config: config, quota: config.Quota, copies: map[string][]<-chan struct{}{}}
	if s.volumes, err = state.OpenTable[Volume](config.Folder, "volumes"); err != nil {
		return nil, err
	}
	if s.snapshots, err = state.OpenTable[Snapshot](config.Folder, "snapshots"); err != nil {
		return nil, err
	}
	if s.backups, err = state.OpenTable[Backup](config.Folder, "backups"); err != nil {
		return nil, err
	}
	for name, data := range map[string]*state.Data{
		"volumes": &s.volumeData, "snapshots": &s.snapshotData, "backups": &s.backupData,
	} {
		if *data, err = state.OpenData(config.Folder, name); err != nil {
			return nil, err
		}
	}
	s.api = s.newAPI()
	return s, errors.Join(s.volumeData.RemoveUnknown(s.volumes.Has),
		s.snapshotData.RemoveUnknown(s.snapshots.Has), s.backupData.RemoveUnknown(s.backups.Has))
}

// API returns the REST API.
func (s *Service) API() *rest.Service { return s.api }

// SetQuota replaces the quota.
func (s *Service) SetQuota(quota Quota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quota = quota
}

// NotifyExtended sets the function that is called after an attached volume was extended, once for
// each server. Call it before the first request.
func (s *Service) NotifyExtended(f func(ctx context.Context, serverID, volumeID string) error) {
	s.extended = f
}

// Resume continues the operations that were not complete when the earlier service ended. Package
// compute continues attachments.
func (s *Service) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	volumes := s.volumes.List()
	slices.SortFunc(volumes, func(a, b Volume) int { return strings.Compare(a.Status, b.Status) })
	for _, volume := range volumes { // first creating, which copies, then deleting
		s.continueVolume(volume, state.Outcome{})
	}
	for _, snapshot := range s.snapshots.List() {
		s.continueSnapshot(snapshot, state.Outcome{})
	}
	for _, backup := range s.backups.List() {
		s.continueBackup(backup, state.Outcome{})
	}
}

// afterCopies returns the outcome of an operation that begins when all copies of a source are
// complete.
func (s *Service) afterCopies(sourceID string, outcome state.Outcome) state.Outcome {
	outcome.Held = append(slices.Clone(outcome.Held), s.copies[sourceID]...)
	delete(s.copies, sourceID)
	return outcome
}

// newID returns the ID of a new volume, snapshot or backup.
func newID() string { return string(uuid.NewUUID()) }

func (s *Service) newAPI() *rest.Service {
	api := rest.NewService(rest.Versions{
		Minimum: rest.Version{Major: 3, Minor: 0}, Maximum: rest.Version{Major: 3, Minor: 70},
		Service: "volume",
	})
	for pattern, handler := range map[string]rest.Handler{
		"GET /volumes":                 s.listVolumes,
		"GET /volumes/detail":          s.listVolumes,
		"POST /volumes":                s.createVolume,
		"GET /volumes/{id}":            s.showVolume,
		"PUT /volumes/{id}":            s.updateVolume,
		"DELETE /volumes/{id}":         s.deleteVolume,
		"POST /volumes/{id}/action":    s.actOnVolume,
		"GET /volumes/{id}/metadata":   s.showMetadata,
		"POST /volumes/{id}/metadata":  s.updateMetadata,
		"PUT /volumes/{id}/metadata":   s.updateMetadata,
		"GET /snapshots":               s.listSnapshots,
		"GET /snapshots/detail":        s.listSnapshots,
		"POST /snapshots":              s.createSnapshot,
		"GET /snapshots/{id}":          s.showSnapshot,
		"DELETE /snapshots/{id}":       s.deleteSnapshot,
		"GET /backups":                 s.listBackups,
		"GET /backups/detail":          s.listBackups,
		"POST /backups":                s.createBackup,
		"GET /backups/{id}":            s.showBackup,
		"DELETE /backups/{id}":         s.deleteBackup,
		"GET /types":                   s.listTypes,
		"GET /types/{id}":              s.showType,
		"GET /limits":                  s.showLimits,
		"GET /os-quota-sets/{project}": s.showQuota,
	} {
		api.Handle(pattern, handler)
	}
	return api
}
