package simulator

import "github.com/openstack-csi/csi-operator/test/openstack/rest"

// Zone is an availability zone of Nova or Cinder. The zero state is available. Shares are in the
// zones of Nova.
type Zone struct {
	Name string
	// Unavailable zones are listed as not available.
	Unavailable bool
}

// zoneList answers requests for the availability zones.
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

// zoneNames returns the names of the available zones of a service.
func (s *Simulator) zoneNames(service Service) []string {
	var names []string
	for _, zone := range s.Zones(service) {
		if !zone.Unavailable {
			names = append(names, zone.Name)
		}
	}
	return names
}
