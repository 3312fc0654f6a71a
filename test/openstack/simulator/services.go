package simulator

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/blockstorage"
	"github.com/openstack-csi/csi-operator/test/openstack/compute"
	"github.com/openstack-csi/csi-operator/test/openstack/sharedfilesystems"
)

// This file contains the methods about servers, volumes and shares. Their types have names here, so
// that callers need no other package.
type (
	// Server is a server of Nova.
	Server = compute.Server
	// Machine attaches the volumes of a server.
	Machine = compute.Machine
	// VolumeType is a volume type of Cinder.
	VolumeType = blockstorage.Type
	// VolumeQuota is the quota of the project in Cinder.
	VolumeQuota = blockstorage.Quota
	// ShareType is a share type of Manila.
	ShareType = sharedfilesystems.Type
	// ShareQuota is the quota of the project in Manila.
	ShareQuota = sharedfilesystems.Quota
	// Order is the order in which share types are listed.
	Order = sharedfilesystems.Order
	// Access is what a client may do with a share: "rw", "ro" or "".
	Access = sharedfilesystems.Level
)

// Orders of share types.
const (
	Reversed = sharedfilesystems.Reversed
	Shuffled = sharedfilesystems.Shuffled
)

// AddServer adds a server, or replaces the one with the same ID. Servers are not state on disk, but
// attachments are: volumes that were attached to the server are attached to its Machine again before
// AddServer returns. A Machine needs Config.State, because volumes have no data without it.
func (s *Simulator) AddServer(ctx context.Context, server Server) error {
	if server.Machine != nil && !s.folder.OnDisk() {
		return errors.New("a server with a Machine needs a simulator with a state folder")
	}
	return s.servers.Add(ctx, server)
}

// RemoveServer deletes a server and detaches its volumes.
func (s *Simulator) RemoveServer(ctx context.Context, id string) error {
	return s.servers.Remove(ctx, id)
}

// SetServerStatus changes the status of a server, such as ACTIVE, BUILD, ERROR or SHUTOFF.
func (s *Simulator) SetServerStatus(id, status string) error { return s.servers.SetStatus(id, status) }

// Metadata returns the metadata service of a server, which the server finds at
// http://169.254.169.254. It answers 404 while there is no server with that ID.
func (s *Simulator) Metadata(serverID string) http.Handler { return s.servers.Metadata(serverID) }

// SetVolumeQuota replaces the quota of the project in Cinder.
func (s *Simulator) SetVolumeQuota(quota VolumeQuota) { s.volumes.SetQuota(quota) }

// SetShareQuota replaces the quota of the project in Manila.
func (s *Simulator) SetShareQuota(quota ShareQuota) { s.shares.SetQuota(quota) }

// ShareTypes returns all share types, in the order in which they were added.
func (s *Simulator) ShareTypes() []ShareType { return s.shares.Types() }

// AddShareType creates a share type. It fails if there is one with the same name.
func (s *Simulator) AddShareType(added ShareType) error { return s.shares.AddType(added) }

// RemoveShareType deletes the share type of that name.
func (s *Simulator) RemoveShareType(name string) error { return s.shares.RemoveType(name) }

// SetShareTypeOrder changes the order in which share types are listed.
func (s *Simulator) SetShareTypeOrder(order Order) { s.shares.SetTypeOrder(order) }

// ShareAccess returns what a client with that address may do with a share, and the folder of the
// share. The folder is empty without access or without Config.State.
func (s *Simulator) ShareAccess(shareID string, client netip.Addr) (level Access, folder string) {
	return s.shares.Access(shareID, client)
}

// export answers GET /exports/ID?client=ADDRESS with what a client may do with a share, for
// stand-ins of NFS servers in other processes. It is no API of OpenStack, and needs no token.
func (s *Simulator) export(c *call) reply {
	id, found := strings.CutPrefix(c.urlPath, "/exports/")
	if !found || c.method != http.MethodGet {
		return failure(c, http.StatusNotFound, "The resource could not be found.")
	}
	client, err := netip.ParseAddr(c.request.URL.Query().Get("client"))
	if err != nil {
		return failure(c, http.StatusBadRequest, "The query must be client=ADDRESS: "+err.Error())
	}
	level, folder := s.ShareAccess(id, client)
	return document(http.StatusOK, map[string]any{"level": level, "folder": folder})
}
