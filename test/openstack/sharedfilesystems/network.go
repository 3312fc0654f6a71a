//go:build linux

package sharedfilesystems

import (
	"net/http"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Network is the record of a share network. It has one subnet, for all availability zones.
type Network struct {
	ID, Name, Description string
	NeutronNetworkID      string
	NeutronSubnetID       string
	ProjectID             string
	Created               time.Time
}

func (s *Service) createNetwork(r *rest.Request) (rest.Answer, error) {
	var wanted struct {
		Name             string `json:"name"`
		Description      string `json:"description"`
		NeutronNetworkID string `json:"neutron_net_id"`
		NeutronSubnetID  string `json:"neutron_subnet_id"`
	}
	if err := r.Decode("share_network", &wanted); err != nil {
		return rest.Answer{}, err
	}
	if (wanted.NeutronNetworkID == "") != (wanted.NeutronSubnetID == "") {
		return rest.Answer{}, rest.BadRequest("When creating a new share network subnet you need to " +
			"specify both neutron_net_id and neutron_subnet_id or none of them.")
	}
	network := Network{
		ID: newID(), Name: wanted.Name, Description: wanted.Description,
		NeutronNetworkID: wanted.NeutronNetworkID, NeutronSubnetID: wanted.NeutronSubnetID,
		ProjectID: r.ProjectID, Created: s.config.Now(),
	}
	if err := s.networks.Put(network.ID, network); err != nil {
		return rest.Answer{}, err
	}
	return rest.Answer{Content: map[string]any{"share_network": describeNetwork(r, network)}}, nil
}

// network returns a record, or the error 404.
func (s *Service) network(id string) (Network, error) {
	network, found := s.networks.Get(id)
	if !found {
		return Network{}, rest.NotFound("Share network %s could not be found.", id)
	}
	return network, nil
}

func (s *Service) showNetwork(r *rest.Request) (rest.Answer, error) {
	network, err := s.network(r.PathValue("id"))
	return rest.Answer{Content: map[string]any{"share_network": describeNetwork(r, network)}}, err
}

func (s *Service) deleteNetwork(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	network, err := s.network(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	users := rest.Filter(s.shares.List(),
		func(share Share) bool { return share.NetworkID == network.ID })
	if len(users) > 0 {
		return rest.Answer{}, rest.Conflict("Can not delete share network %s, it has %d share(s).",
			network.ID, len(users))
	}
	return rest.Answer{Status: http.StatusAccepted}, s.networks.Delete(network.ID)
}

func (s *Service) listNetworks(r *rest.Request) (rest.Answer, error) {
	networks := rest.Filter(s.networks.List(), func(network Network) bool {
		return r.Matches("name", network.Name) &&
			r.Matches("neutron_net_id", network.NeutronNetworkID) &&
			r.Matches("neutron_subnet_id", network.NeutronSubnetID)
	})
	return rest.Collection[Network]{
		Name:     "share_networks",
		ID:       func(network Network) string { return network.ID },
		Created:  func(network Network) time.Time { return network.Created },
		Describe: func(network Network) map[string]any { return describeNetwork(r, network) },
		Summarize: func(network Network) map[string]any {
			return map[string]any{"id": network.ID, "name": rest.Optional(network.Name)}
		},
	}.Answer(r, networks)
}

// describeNetwork returns a share network with the fields of the microversion; API reference: Show
// share network details. The fields of the subnet are in a list since 2.51.
func describeNetwork(r *rest.Request, network Network) map[string]any {
	subnet := map[string]any{
		"neutron_net_id":    rest.Optional(network.NeutronNetworkID),
		"neutron_subnet_id": rest.Optional(network.NeutronSubnetID),
		"network_type":      nil, "segmentation_id": nil, "cidr": nil, "ip_version": nil,
	}
	if r.Version.AtLeast(18) {
		subnet["gateway"] = nil
	}
	if r.Version.AtLeast(20) {
		subnet["mtu"] = nil
	}
	description := map[string]any{
		"id": network.ID, "name": rest.Optional(network.Name), "project_id": network.ProjectID,
		"created_at": rest.Time(network.Created), "updated_at": nil,
		"description": rest.Optional(network.Description),
	}
	if r.Version.AtLeast(51) {
		subnet["id"] = state.NamedID("share network subnet", network.ID)
		subnet["availability_zone"] = nil
		subnet["created_at"], subnet["updated_at"] = rest.Time(network.Created), nil
		description["share_network_subnets"] = []any{subnet}
	} else {
		for field, value := range subnet {
			description[field] = value
		}
	}
	if !r.Version.AtLeast(26) {
		description["nova_net_id"] = nil
	}
	if r.Version.AtLeast(63) {
		description["status"], description["security_service_update_support"] = "active", true
	}
	if r.Version.AtLeast(70) {
		description["network_allocation_update_support"] = false
	}
	return description
}
