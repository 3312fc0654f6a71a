//go:build linux

package compute

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

func (s *Service) showServer(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, err := s.server(r.PathValue("server"))
	if err != nil {
		return rest.Answer{}, err
	}
	return rest.Answer{Content: map[string]any{"server": s.describe(r, server)}}, nil
}

// listServers answers with the servers of a page, filtered by name (a regular expression) and
// status.
func (s *Service) listServers(r *rest.Request) (rest.Answer, error) {
	query := r.URL.Query()
	name, err := regexp.Compile(query.Get("name"))
	if err != nil {
		return rest.Answer{}, rest.BadRequest("Invalid input for query parameters name.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	servers := rest.Filter(slices.Clone(s.servers), func(server record) bool {
		return name.MatchString(server.Name) &&
			(!query.Has("status") || strings.EqualFold(query.Get("status"), server.Status))
	})
	return rest.Collection[record]{
		Name: "servers", Links: "servers_links",
		ID:       func(server record) string { return server.ID },
		Created:  func(server record) time.Time { return server.created },
		Describe: func(server record) map[string]any { return s.describe(r, server) },
		Summarize: func(server record) map[string]any {
			return r.Summary("servers", server.ID, server.Name)
		},
		Missing: func(marker string) error {
			return rest.BadRequest("marker [%s] not found", marker)
		},
	}.Answer(r, servers)
}

// describe returns a server with the fields that a user sees; API reference: Show Server Details.
// The flavor has its fields since 2.47 for any version, and there are no addresses and no image.
func (s *Service) describe(r *rest.Request, server record) map[string]any {
	volumes := []any{}
	for _, volume := range s.config.Volumes.Attachables(server.ID) {
		attached := map[string]any{"id": volume.VolumeID}
		if r.Version.AtLeast(3) {
			attached["delete_on_termination"] = false
		}
		volumes = append(volumes, attached)
	}
	// Nova writes these times with a zone and without fractions.
	created := server.created.UTC().Format(time.RFC3339)
	description := map[string]any{
		"id": server.ID, "name": server.Name, "status": server.Status,
		"tenant_id": s.config.ProjectID(), "user_id": s.config.UserID(),
		"metadata": rest.Metadata(server.Metadata),
		"hostId":   state.NamedID("host", server.ID), "image": "",
		"flavor": map[string]any{
			"vcpus": 2, "ram": 4096, "disk": 20, "ephemeral": 0, "swap": 0, "original_name": "m1.node",
			"extra_specs": map[string]string{},
		},
		"created": created, "updated": created, "addresses": map[string]any{},
		"accessIPv4": "", "accessIPv6": "", "links": r.Links("servers", server.ID),
		"OS-DCF:diskConfig": "MANUAL", "OS-EXT-AZ:availability_zone": server.Zone, "config_drive": "",
		"key_name": nil, "OS-SRV-USG:launched_at": rest.Time(server.created),
		"OS-SRV-USG:terminated_at": nil, "OS-EXT-STS:task_state": nil,
		"OS-EXT-STS:vm_state":                  vmState(server.Status),
		"OS-EXT-STS:power_state":               powerState(server.Status),
		"os-extended-volumes:volumes_attached": volumes,
	}
	if server.Status == "ACTIVE" {
		description["progress"] = 0
	}
	return description
}

// powerState returns 1 for a running server, 4 for one that is off, 0 otherwise.
func powerState(status string) int {
	switch status {
	case "ACTIVE":
		return 1
	case "SHUTOFF":
		return 4
	}
	return 0
}
