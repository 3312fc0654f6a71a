package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"

	"github.com/openstack-csi/csi-operator/test/openstack/compute"
	"github.com/openstack-csi/csi-operator/test/openstack/quota"
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/sharedfilesystems"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// The types of servers and shares have names here, so that callers need no other package.
type (
	// Server is a server of Nova.
	Server = compute.Server
	// Machine attaches the volumes of a server.
	Machine = compute.Machine
	// ShareType is a share type of Manila.
	ShareType = sharedfilesystems.Type
	// Quota is a limit of Cinder or Manila.
	Quota = quota.Limit
	// Reason is why an operation of Cinder or Manila failed.
	Reason = rest.Reason
)

// SetQuotas sets limits of Volume or Share, and leaves the others as they are.
func (s *Simulator) SetQuotas(service Service, limits ...Quota) error {
	switch service {
	case Volume:
		s.volumes.SetQuotas(limits...)
	case Share:
		s.shares.SetQuotas(limits...)
	default:
		return fmt.Errorf("service %q has no quotas, want %s or %s", service, Volume, Share)
	}
	return nil
}

// AddServer adds a server. A Machine needs Config.State, because volumes have no data without it.
func (s *Simulator) AddServer(server Server) { s.servers.Add(server) }

// RemoveServer deletes a server. Its volumes stay attached to it, as if Nova had not told Cinder.
func (s *Simulator) RemoveServer(id string) { s.servers.Remove(id) }

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

// SetStatus changes the status of a volume or a share, as an administrator or a failed operation
// does, and adds messages that say why.
func (s *Simulator) SetStatus(service Service, id, status string, reasons ...Reason) error {
	switch service {
	case Volume:
		return s.volumes.SetStatus(id, status, reasons...)
	case Share:
		return s.shares.SetStatus(id, status, reasons...)
	}
	return fmt.Errorf("service %q has no such status, want %s or %s", service, Volume, Share)
}

// SetShareCopies changes the statuses of the replicas and migration copies of a share.
func (s *Simulator) SetShareCopies(shareID string, copies ...string) error {
	return s.shares.SetCopies(shareID, copies...)
}

// ShareAccess returns what a client with that address may do with a share, "rw", "ro" or "", and
// whether the share exists.
func (s *Simulator) ShareAccess(shareID string, client netip.Addr) (level string, found bool) {
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
		case level == "":
			http.Error(w, "no access rule admits "+client.Addr().String(), http.StatusForbidden)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]string{"access": level}) // the client may be gone
		}
	})
	return mux
}

// versions returns what answers a request for the version documents of a service: of all its
// versions if the version is empty. It returns nil for a version that does not exist.
func (s *Simulator) versions(service Service, version string) func(*call) reply {
	if version != "" && "/"+version != versionPath(service) {
		return nil
	}
	return func(c *call) reply {
		if c.method != http.MethodGet {
			return failure(c, http.StatusMethodNotAllowed, "The method is not allowed.")
		}
		s.mu.Lock()
		authorized := s.authorized(c)
		s.mu.Unlock()
		switch {
		case service == Compute && version != "":
			return document(http.StatusOK, map[string]any{"version": s.version(service)})
		case service == Compute:
			return document(http.StatusOK, map[string]any{"versions": []any{s.version(service)}})
		case version == "":
			return document(http.StatusMultipleChoices,
				map[string]any{"versions": []any{s.version(service)}})
		case !authorized:
			return failure(c, http.StatusUnauthorized, errorAuthentication)
		}
		return document(http.StatusOK, map[string]any{"versions": []any{s.version(service)}})
	}
}

func (s *Simulator) version(service Service) map[string]any {
	versions := s.apis[service].Versions()
	ids := map[Service]string{Share: "v2.0", Compute: "v2.1", Volume: "v3.0"}
	updated := map[Service]string{
		Share: "2015-08-27T11:33:21Z", Compute: "2013-07-23T11:33:21Z", Volume: "2022-08-31T00:00:00Z",
	}
	return map[string]any{
		"id": ids[service], "status": "CURRENT", "version": versions.Maximum.String(),
		"min_version": versions.Minimum.String(), "updated": updated[service],
		"links": []map[string]string{
			{"rel": "self", "href": s.endpoint(service, s.config.Regions[0]) + "/"},
		},
	}
}

// Zone is an availability zone of Nova, Cinder or Manila. The zero state is available.
type Zone struct {
	Name string
	// Unavailable says that all services of the zone are disabled. Nova and Cinder list it as not
	// available, and Manila does not list it.
	Unavailable bool
}

func (s *Simulator) zoneList(service Service) rest.Handler {
	return func(*rest.Request) (rest.Answer, error) {
		list := []any{}
		for _, zone := range s.Zones(service) {
			description := map[string]any{
				"zoneName": zone.Name, "zoneState": map[string]bool{"available": !zone.Unavailable},
			}
			if service == Compute {
				description["hosts"] = nil
			}
			list = append(list, description)
		}
		return rest.Answer{Content: map[string]any{"availabilityZoneInfo": list}}, nil
	}
}

// listShareZones lists the zones of Manila; API reference: List all availability zones.
func (s *Simulator) listShareZones(r *rest.Request) (rest.Answer, error) {
	if !r.Version.AtLeast(7) {
		return rest.Answer{}, rest.NotFound("API version %s is not supported on this method.", r.Version)
	}
	list := []any{}
	for _, zone := range s.Zones(Share) {
		if zone.Unavailable {
			continue
		}
		list = append(list, map[string]any{
			"id": state.NamedID("share zone", zone.Name), "name": zone.Name,
			"created_at": "2024-01-01T00:00:00.000000", "updated_at": nil,
		})
	}
	return rest.Answer{Content: map[string]any{"availability_zones": list}}, nil
}

func (s *Simulator) zoneNames(service Service) []string {
	var names []string
	for _, zone := range s.Zones(service) {
		if !zone.Unavailable {
			names = append(names, zone.Name)
		}
	}
	return names
}

// respond returns the answer of the services: those of Config.Upstream, or else the simulated ones.
func (s *Simulator) respond(ctx context.Context, c *call) reply {
	if s.config.Upstream == nil {
		return s.route(ctx, c)
	}
	forwarded := c.request.Clone(ctx)
	forwarded.Body = io.NopCloser(bytes.NewReader(c.body))
	forwarded.ContentLength = int64(len(c.body))
	recorder := httptest.NewRecorder()
	s.config.Upstream.ServeHTTP(recorder, forwarded)
	if token := recorder.Header().Get("X-Subject-Token"); c.login() && token != "" {
		s.record(token)
	}
	return replyOf(recorder)
}

// record keeps a token that the upstream has issued.
func (s *Simulator) record(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.loggedIn()
	if !slices.Contains(s.issued, token) {
		s.issued = append(s.issued, token)
	}
}
