// Package blockstorage simulates Cinder: volumes, their types, snapshots, and messages. The
// simulator serves it, and package compute attaches its volumes.
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
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/quota"
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
	// Extended is called after an attached volume was extended.
	Extended func(ctx context.Context, serverID, volumeID string) error
}

// Service is a simulated Cinder. New creates it.
type Service struct {
	// API is the REST API.
	API *rest.Service

	config    Config
	volumes   *rest.Store[*Volume]
	snapshots *rest.Store[*Snapshot]
	messages  *rest.Messages
	limits    quota.Limits // the lock of the worker protects it
}

// gibibyte is the unit of sizes in Cinder, in bytes.
const gibibyte = 1 << 30

// New returns a Cinder without volumes.
func New(config Config) (*Service, error) {
	s := &Service{config: config}
	volumes, errVolumes := state.NewData(config.Folder, "volumes")
	snapshots, errSnapshots := state.NewData(config.Folder, "snapshots")
	s.volumes = &rest.Store[*Volume]{
		Worker: config.Worker, Data: volumes, Name: "volume", Links: "volumes_links",
		Missing: missing("Volume"), Describe: describe, CanDelete: s.canDelete,
	}
	s.snapshots = &rest.Store[*Snapshot]{
		Worker: config.Worker, Data: snapshots, Name: "snapshot",
		Links: "snapshots_links", Missing: missing("Snapshot"), Describe: describeSnapshot,
		Summarize: summarizeSnapshot, CanDelete: canDeleteSnapshot,
		Keep: func(r *rest.Request, snapshot *Snapshot) bool {
			return r.Matches("volume_id", snapshot.VolumeID)
		},
	}
	s.messages = s.newMessages()
	s.API = s.newAPI()
	return s, errors.Join(errVolumes, errSnapshots)
}

// missing returns the error 404 of records of a kind.
func missing(kind string) func(id string) error {
	return func(id string) error { return rest.NotFound("%s %s could not be found.", kind, id) }
}

func (s *Service) newAPI() *rest.Service {
	return rest.NewService(rest.Versions{
		Minimum: rest.Version{Major: 3, Minor: 0}, Maximum: rest.Version{Major: 3, Minor: 70},
		Service: "volume",
	}, s.config.Worker, map[string]rest.Handler{
		"GET /types":                listTypes,
		"GET /os-quota-sets/{id}":   s.showQuotas,
		"GET /messages":             s.listMessages,
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
	})
}

// defaultType is the volume type that Cinder creates when it is installed.
const defaultType = "__DEFAULT__"

// typeID returns the ID of a volume type, which is the same in each run.
func typeID(name string) string { return state.NamedID("volume type", name) }

// checkType returns an error unless a text names the default type, the only one.
func checkType(nameOrID string) error {
	switch nameOrID {
	case "", defaultType, typeID(defaultType):
		return nil
	}
	return rest.NotFound("Volume type with name %s could not be found.", nameOrID)
}

// listTypes answers with the only volume type; API reference: List all volume types.
func listTypes(*rest.Request) (rest.Answer, error) {
	return rest.Answer{Content: map[string]any{"volume_types": []any{map[string]any{
		"id": typeID(defaultType), "name": defaultType, "description": nil, "is_public": true,
		"os-volume-type-access:is_public": true,
	}}}}, nil
}

// filtered rejects unknown filters, as Cinder does since 3.31. Earlier versions ignore them.
func filtered(list rest.Handler, filters ...string) rest.Handler {
	return func(r *rest.Request) (rest.Answer, error) {
		if err := checkFilters(r, filters); err != nil {
			return rest.Answer{}, err
		}
		return list(r)
	}
}

func checkFilters(r *rest.Request, allowed []string) error {
	if !r.Version.AtLeast(31) {
		return nil
	}
	allowed = append(allowed, "limit", "marker", "offset", "sort", "sort_key", "sort_dir",
		"all_tenants", "with_count")
	var unknown []string
	for key := range r.URL.Query() {
		if !slices.Contains(allowed, strings.TrimSuffix(key, "~")) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return rest.BadRequest("Invalid filters %s are found in query options.",
		strings.Join(unknown, ","))
}
