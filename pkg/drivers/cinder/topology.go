package cinder

import "github.com/openstack-csi/csi-operator/pkg/openstack"

// Topology tells whether volumes can follow servers by the name of their zone: every available compute zone is an available
// volume zone too, and there is one at least. Zones that are not available do not count, nor do zones for volumes alone. A
// name that is listed more than once is available if it is so once.
func Topology(compute, volume []openstack.Zone) bool {
	servers, volumes := available(compute), available(volume)
	for name := range servers {
		if !volumes[name] {
			return false
		}
	}
	return len(servers) > 0
}

func available(zones []openstack.Zone) map[string]bool {
	names := map[string]bool{}
	for _, zone := range zones {
		if zone.Available {
			names[zone.Name] = true
		}
	}
	return names
}
