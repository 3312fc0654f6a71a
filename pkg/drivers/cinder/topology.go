package cinder

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// maxNamed is the maximum number of zones of a list in a message.
const maxNamed = 5

// zoneLists contains the names of the availability zones that one probe found: all that exist, and
// those that are available.
type zoneLists struct {
	compute, availableCompute, volume, availableVolume sets.Set[string]
}

// newZoneLists sorts the zones of a probe. A name that is listed more than once is available if one
// of its entries is. An empty list is an error: every cloud that runs the service has a zone.
func newZoneLists(compute, volume []openstack.Zone) (zoneLists, error) {
	z := zoneLists{
		names(compute, true), names(compute, false), names(volume, true), names(volume, false),
	}
	switch {
	case len(z.volume) == 0:
		return z, errNoZones("block storage service (Cinder)", "lists no availability zone")
	case len(z.compute) == 0:
		return z, errNoZones("compute service (Nova)", "lists no availability zone")
	}
	return z, nil
}

// names returns the names of all zones, or of those that are available.
func names(zones []openstack.Zone, all bool) sets.Set[string] {
	found := sets.New[string]()
	for _, zone := range zones {
		if all || zone.Available {
			found.Insert(zone.Name)
		}
	}
	return found
}

func errNoZones(service, fault string) error {
	message := fmt.Sprintf("OpenStack's %s %s. Ask the cloud's administrator to check its services; "+
		"the operator retries automatically", service, fault)
	return &openstack.Error{Reason: openstack.CloudUnreachable, Message: message}
}

// topologyFrom returns the first of its arguments that is known: the choice of the administrator,
// the decision of the probes, and the decision that an earlier process deployed.
func topologyFrom(user, probes, deployed *bool) *bool { return cmp.Or(user, probes, deployed) }

// certain returns whether volumes can follow pods into zones, and whether this holds whichever zone
// is in maintenance: they can if every compute zone is an available volume zone, and they cannot if
// an available compute zone is not a volume zone at all. A zone that no node label can hold counts
// as one without volumes.
func (z zoneLists) certain() (topology, certain bool) {
	unusable := unlabeled(z.compute)
	if z.availableVolume.Difference(unusable).IsSuperset(z.compute) {
		return true, true
	}
	return false, !z.volume.Difference(unusable).IsSuperset(z.availableCompute)
}

// unlabeled returns the zones that no node label can hold. The driver's part on the nodes changes
// their names to report the zone of a node, and Cinder does not know the changed names.
func unlabeled(zones sets.Set[string]) sets.Set[string] {
	found := zones.Clone()
	maps.DeleteFunc(found, func(name string, _ sets.Empty) bool { return isLabel(name) })
	return found
}

func isLabel(name string) bool { return len(validation.IsValidLabelValue(name)) == 0 }

// fault describes the compute zones that no node label can hold, "" if there are none.
func (z zoneLists) fault() string {
	found := unlabeled(z.compute)
	if len(found) == 0 {
		return ""
	}
	return "node labels cannot hold the names of compute zones " + listed(found)
}

// first returns whether volumes can follow pods into zones, for a driver that was never deployed.
// Zones that are unavailable do not count, because maintenance cannot be distinguished from a zone
// that is out of use.
func (z zoneLists) first() (topology bool, err error) {
	if topology, certain := z.certain(); certain {
		return topology, nil
	}
	switch {
	case len(z.availableCompute) == 0:
		return false, errNoZones("compute service (Nova)", "lists no zone that is available")
	case len(z.availableVolume) == 0:
		return false, errNoZones("block storage service (Cinder)", "lists no zone that is available")
	}
	return z.availableVolume.IsSuperset(z.availableCompute), nil
}

// since describes the zones and how they changed; the zero value of before is unknown.
func (z zoneLists) since(before zoneLists) string {
	compute, volume := listed(z.compute), listed(z.volume)
	if len(before.compute) > 0 {
		compute, volume = listed(before.compute)+" -> "+compute, listed(before.volume)+" -> "+volume
	}
	text := "compute zones " + compute + "; volume zones " + volume
	if fault := z.fault(); fault != "" {
		text += "; " + fault
	}
	return text
}

// listed returns the names of zones. It quotes those that no node label can hold, because the cloud
// chooses the names.
func listed(zones sets.Set[string]) string {
	found := sets.List(zones)
	for i, name := range found {
		if !isLabel(name) {
			found[i] = strconv.Quote(name)
		}
	}
	return cluster.Joined(found, maxNamed, ", ")
}
