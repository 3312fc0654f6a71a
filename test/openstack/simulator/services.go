package simulator

import (
	"encoding/json"
	"net/http"
	"net/netip"

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
	// ShareType is a share type of Manila.
	ShareType = sharedfilesystems.Type
	// Access is what a client may do with a share: "rw", "ro" or "".
	Access = sharedfilesystems.Level
)

// AddServer adds a server. A Machine needs Config.State, because volumes have no data without it.
func (s *Simulator) AddServer(server Server) { s.servers.Add(server) }

// Metadata returns the metadata service of a server, which the server finds at
// http://169.254.169.254. It answers 404 while there is no server with that ID.
func (s *Simulator) Metadata(serverID string) http.Handler { return s.servers.Metadata(serverID) }

// ShareTypes returns all share types, in the order in which they were added.
func (s *Simulator) ShareTypes() []ShareType { return s.shares.Types() }

// AddShareType creates a share type. It fails if there is one with the same name.
func (s *Simulator) AddShareType(added ShareType) error { return s.shares.AddType(added) }

// RemoveShareType deletes the share type of that name.
func (s *Simulator) RemoveShareType(name string) error { return s.shares.RemoveType(name) }

// ReverseShareTypes reverses the order in which share types are listed.
func (s *Simulator) ReverseShareTypes() { s.shares.ReverseTypes() }

// ShareAccess returns what a client with that address may do with a share, and whether the share
// exists.
func (s *Simulator) ShareAccess(shareID string, client netip.Addr) (level Access, found bool) {
	return s.shares.Access(shareID, client)
}

// Exports answers GET /shares/ID with what the client may do with a share: {"access": "rw"} or
// "ro", status 403 if no access rule admits the client, 404 if there is no such share. As in NFS,
// the address of the connection is the client. It is for stand-ins of NFS servers, and no API of
// OpenStack.
func (s *Simulator) Exports() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /shares/{id}", func(w http.ResponseWriter, r *http.Request) {
		client, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch level, found := s.ShareAccess(r.PathValue("id"), client.Addr()); {
		case !found:
			http.Error(w, "the share does not exist", http.StatusNotFound)
		case level == sharedfilesystems.NoAccess:
			http.Error(w, "no access rule admits "+client.Addr().String(), http.StatusForbidden)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]Access{"access": level}) // the client may be gone
		}
	})
	return mux
}
