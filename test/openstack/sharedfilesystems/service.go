//go:build linux

// Package sharedfilesystems simulates Manila: shares, access rules, export locations, snapshots,
// share types and share networks. The simulator serves it.
//
// A share is a folder, and a snapshot is a copy of it. Nothing limits the amount of data in a
// share. Service.Access returns whether a client may mount a share.
package sharedfilesystems

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Config describes a Manila.
type Config struct {
	Folder state.Folder
	Worker *state.Worker
	Now    func() time.Time
	// Zones returns the names of the availability zones; shares are in the first by default.
	Zones func() []string
	// Types are the share types that exist from the start.
	Types []Type
	Quota Quota
	// Host is the host in export locations.
	Host string
}

// Quota is the quota of the project. Zero is no limit.
type Quota struct {
	Shares, Snapshots int
	// Gigabytes of all shares, and SnapshotGigabytes of all snapshots.
	Gigabytes, SnapshotGigabytes int
	// ShareGigabytes is the limit for one share.
	ShareGigabytes int
}

// Service is a simulated Manila. New creates it.
type Service struct {
	config Config
	api    *rest.Service

	mu        sync.Mutex // held while a record is read and changed, and not during an operation
	types     []Type
	order     Order
	quota     Quota
	copies    map[string][]<-chan struct{} // by the ID of a snapshot; closed when they are complete
	shares    *state.Table[Share]
	snapshots *state.Table[Snapshot]
	networks  *state.Table[Network]
	messages  *state.Table[Message]

	shareData, snapshotData state.Data
}

// gibibyte is the unit of sizes in Manila, in bytes.
const gibibyte = 1 << 30

// New returns a Manila with the records of the folder. Resume continues its operations.
func New(config Config) (s *Service, err error) {
	s = &Service{
		config: config, types: slices.Clone(config.Types), quota: config.Quota,
		copies: map[string][]<-chan struct{}{},
	}
	if s.shares, err = state.OpenTable[Share](config.Folder, "shares"); err != nil {
		return nil, err
	}
	if s.snapshots, err = state.OpenTable[Snapshot](config.Folder, "share-snapshots"); err != nil {
		return nil, err
	}
	if s.networks, err = state.OpenTable[Network](config.Folder, "share-networks"); err != nil {
		return nil, err
	}
	if s.messages, err = state.OpenTable[Message](config.Folder, "share-messages"); err != nil {
		return nil, err
	}
	if s.shareData, err = state.OpenData(config.Folder, "shares"); err != nil {
		return nil, err
	}
	if s.snapshotData, err = state.OpenData(config.Folder, "share-snapshots"); err != nil {
		return nil, err
	}
	s.api = s.newAPI()
	return s, errors.Join(s.shareData.RemoveUnknown(s.shares.Has),
		s.snapshotData.RemoveUnknown(s.snapshots.Has))
}

// API returns the REST API.
func (s *Service) API() *rest.Service { return s.api }

// SetQuota replaces the quota.
func (s *Service) SetQuota(quota Quota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quota = quota
}

// Resume continues the operations that were not complete when the earlier service ended.
func (s *Service) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	shares := s.shares.List()
	slices.SortFunc(shares, func(a, b Share) int { return strings.Compare(a.Status, b.Status) })
	for _, share := range shares { // first creating, which copies, then deleting
		s.continueShare(share, state.Outcome{})
		for _, rule := range share.Rules {
			s.continueRule(share.ID, rule, state.Outcome{})
		}
	}
	for _, snapshot := range s.snapshots.List() {
		s.continueSnapshot(snapshot, state.Outcome{})
	}
}

// newID returns the ID of a new share, snapshot, access rule, share network or message.
func newID() string { return string(uuid.NewUUID()) }

func (s *Service) newAPI() *rest.Service {
	api := rest.NewService(rest.Versions{
		Minimum: rest.Version{Major: 2, Minor: 0}, Maximum: rest.Version{Major: 2, Minor: 73},
		Header: "X-OpenStack-Manila-API-Version",
	})
	for pattern, handler := range map[string]rest.Handler{
		"GET /shares":                        s.listShares,
		"GET /shares/detail":                 s.listShares,
		"POST /shares":                       s.createShare,
		"GET /shares/{id}":                   s.showShare,
		"DELETE /shares/{id}":                s.deleteShare,
		"POST /shares/{id}/action":           s.actOnShare,
		"GET /shares/{id}/export_locations":  s.listExportLocations,
		"GET /shares/{id}/metadata":          s.showMetadata,
		"POST /shares/{id}/metadata":         s.updateMetadata,
		"PUT /shares/{id}/metadata":          s.updateMetadata,
		"DELETE /shares/{id}/metadata/{key}": s.deleteMetadata,
		"GET /share-access-rules":            s.listRulesOfShare,
		"GET /snapshots":                     s.listSnapshots,
		"GET /snapshots/detail":              s.listSnapshots,
		"POST /snapshots":                    s.createSnapshot,
		"GET /snapshots/{id}":                s.showSnapshot,
		"DELETE /snapshots/{id}":             s.deleteSnapshot,
		"GET /types":                         s.listTypes,
		"GET /types/{id}":                    s.showType,
		"GET /types/{id}/extra_specs":        denyToUsers,
		"GET /share-networks":                s.listNetworks,
		"GET /share-networks/detail":         s.listNetworks,
		"POST /share-networks":               s.createNetwork,
		"GET /share-networks/{id}":           s.showNetwork,
		"DELETE /share-networks/{id}":        s.deleteNetwork,
		"GET /messages":                      s.listMessages,
		"GET /limits":                        s.showLimits,
	} {
		api.Handle(pattern, handler)
	}
	return api
}
