// Package sharedfilesystems simulates Manila: shares, access rules, export locations, snapshots and
// share types. The simulator serves it.
//
// A share is a folder, and a snapshot is a copy of it. Nothing limits the amount of data in a
// share. Service.Access returns whether a client may mount a share.
package sharedfilesystems

import (
	"errors"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/quota"
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Config describes a Manila.
type Config struct {
	// Folder is the folder of the cloud; without one, shares have no data.
	Folder string
	Worker *state.Worker
	// Zones returns the names of the availability zones; shares are in the first by default.
	Zones func() []string
	// Types are the share types that exist from the start.
	Types []Type
	// Host is the host in export locations.
	Host string
}

// Service is a simulated Manila. New creates it.
type Service struct {
	// API is the REST API.
	API *rest.Service

	config    Config
	types     []Type // the lock of the worker protects this and the fields below
	reversed  bool
	shares    *rest.Store[*Share]
	snapshots *rest.Store[*Snapshot]
	messages  *rest.Messages
	limits    quota.Limits
}

// New returns a Manila without shares.
func New(config Config) (*Service, error) {
	s := &Service{config: config, types: slices.Clone(config.Types)}
	shares, errShares := state.NewData(config.Folder, "shares")
	snapshots, errSnapshots := state.NewData(config.Folder, "share-snapshots")
	s.shares = &rest.Store[*Share]{
		Worker: config.Worker, Data: shares, Name: "share", Links: "shares_links",
		NextPath: "/shares", Describe: describeShare, CanDelete: s.canDelete,
		Keep: func(r *rest.Request, share *Share) bool {
			deleted := r.Version.AtLeast(69) &&
				strings.EqualFold(r.URL.Query().Get("is_soft_deleted"), "true")
			return share.SoftDeleted == deleted &&
				rest.Contains(share.Metadata, rest.Keywords(r.URL.Query().Get("metadata")))
		},
	}
	s.snapshots = &rest.Store[*Snapshot]{
		Worker: config.Worker, Data: snapshots, Name: "snapshot",
		Links: "share_snapshots_links", NextPath: "/snapshots", Describe: describeSnapshot,
		CanDelete: canDeleteSnapshot,
		Keep: func(r *rest.Request, snapshot *Snapshot) bool {
			return r.Matches("share_id", snapshot.ShareID)
		},
	}
	s.messages = s.newMessages()
	s.API = s.newAPI()
	return s, errors.Join(errShares, errSnapshots)
}

func (s *Service) newAPI() *rest.Service {
	return rest.NewService(rest.Versions{
		Minimum: rest.Version{Major: 2, Minor: 0}, Maximum: rest.Version{Major: 2, Minor: 73},
		Header: "X-OpenStack-Manila-API-Version",
	}, s.config.Worker, map[string]rest.Handler{
		"GET /shares/detail":                 s.shares.List,
		"POST /shares":                       s.createShare,
		"GET /shares/{id}":                   s.shares.Show,
		"DELETE /shares/{id}":                s.shares.Delete,
		"POST /shares/{id}/action":           s.actOnShare,
		"GET /shares/{id}/export_locations":  s.listExportLocations,
		"POST /shares/{id}/metadata":         s.addMetadata,
		"DELETE /shares/{id}/metadata/{key}": s.deleteMetadata,
		"GET /share-access-rules":            s.listRulesOfShare,
		"GET /snapshots/detail":              s.snapshots.List,
		"POST /snapshots":                    s.createSnapshot,
		"GET /snapshots/{id}":                s.snapshots.Show,
		"DELETE /snapshots/{id}":             s.snapshots.Delete,
		"GET /types":                         s.listTypes,
		"GET /limits":                        s.showLimits,
		"GET /quota-sets/{id}":               s.showQuotas(false),
		"GET /quota-sets/{id}/detail":        s.showQuotas(true),
		"GET /messages":                      s.listMessages,
	})
}
