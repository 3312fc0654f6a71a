package simulator

import "net/http"

// Zone is an availability zone of Nova or Cinder. The zero state is available.
type Zone struct {
	Name string
	// Unavailable zones are listed as not available.
	Unavailable bool
}

// zoneList answers a request for the availability zones.
func (s *Simulator) zoneList(c *call) reply {
	list := []any{}
	for _, zone := range s.zones[c.service] {
		list = append(list, map[string]any{
			"zoneName": zone.Name, "zoneState": map[string]bool{"available": !zone.Unavailable},
		})
	}
	return document(http.StatusOK, map[string]any{"availabilityZoneInfo": list})
}
