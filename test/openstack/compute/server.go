//go:build linux

package compute

import (
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

// describe returns a server with the fields that a user sees, without its volumes; API reference:
// Show Server Details. The flavor has its fields since 2.47 for any version, and there are no
// addresses and no image.
func (s *Service) describe(r *rest.Request, server record) map[string]any {
	// Nova writes these times with a zone and without fractions.
	created := server.created.UTC().Format(time.RFC3339)
	return map[string]any{
		"id": server.ID, "name": server.Name, "status": "ACTIVE", "progress": 0,
		"tenant_id": s.config.ProjectID(), "user_id": s.config.UserID(),
		"metadata": map[string]string{},
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
		"OS-EXT-STS:vm_state": "active", "OS-EXT-STS:power_state": 1,
	}
}
