//go:build linux

package compute

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Metadata returns the metadata service of a server, which the server finds at 169.254.169.254. It
// serves meta_data.json of every version, and lists of versions and files; Compute documentation:
// Metadata service.
func (s *Service) Metadata(serverID string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openstack/{$}", writeLines("2018-08-27", "2020-10-14", "latest"))
	mux.HandleFunc("GET /openstack", writeLines("2018-08-27", "2020-10-14", "latest"))
	mux.HandleFunc("GET /openstack/{version}", writeLines("meta_data.json"))
	mux.HandleFunc("GET /openstack/{version}/{$}", writeLines("meta_data.json"))
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
	metadata := map[string]any{
		"uuid": server.ID, "name": server.Name, "hostname": server.Name, "launch_index": 0,
		"availability_zone": server.Zone, "project_id": s.config.ProjectID(), "devices": []any{},
		"dedicated_cpus": []int{},
	}
	if len(server.Metadata) > 0 {
		metadata["meta"] = server.Metadata
	}
	body, err := json.Marshal(metadata)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client is gone if this fails
}

func writeLines(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
	}
}
