//go:build linux

package compute

import (
	"encoding/json"
	"net/http"
)

// Metadata returns the metadata service of a server, which the server finds at 169.254.169.254. It
// serves meta_data.json of every version; Compute documentation: Metadata service.
func (s *Service) Metadata(serverID string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openstack/{version}/meta_data.json",
		func(w http.ResponseWriter, _ *http.Request) { s.writeMetadata(w, serverID) })
	return mux
}

func (s *Service) writeMetadata(w http.ResponseWriter, serverID string) {
	s.mu.Lock()
	server, err := s.server(serverID)
	s.mu.Unlock()
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
}
