// Package zones decides whether volumes or shares follow pods into availability zones: it compares
// the zones of compute and storage, and keeps its decision while zones are in maintenance. Its
// callers are the driver plugins.
package zones

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// maxNamed is the maximum number of zones of a list in a message.
const maxNamed = 5

// Storage is a service of OpenStack whose zones are compared with those of compute.
type Storage struct {
	// Service is the name of the service, and Noun what it creates.
	Service, Noun string
	// Zones lists the zones.
	Zones func(Cloud, context.Context) ([]openstack.Zone, error)
	// Hides means that the service does not list a zone whose services are all disabled. So a missing
	// zone may be in maintenance, and never turns topology off.
	Hides bool
}

// Volumes returns the service of volumes.
func Volumes() Storage {
	return Storage{"block storage service (Cinder)", "volume", Cloud.VolumeZones, false}
}

// Shares returns the service of shares.
func Shares() Storage {
	return Storage{"shared file system service (Manila)", "share", Cloud.ShareZones, true}
}

// Lists contains the names of the availability zones that one probe found: all that exist, and
// those that are available.
type Lists struct {
	Compute sets.Set[string]

	availableCompute, volume, availableVolume sets.Set[string]
	of                                        Storage
}

// newLists sorts the zones of a probe. A name that is listed more than once is available if one of
// its entries is. An empty list is an error: every cloud that runs the service has a zone.
func newLists(compute, volume []openstack.Zone, of Storage) (Lists, error) {
	z := Lists{
		names(compute, true), names(compute, false), names(volume, true), names(volume, false), of,
	}
	switch {
	case len(z.volume) == 0:
		return z, errNoZones(of.Service, "lists no availability zone")
	case len(z.Compute) == 0:
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

// certain returns whether volumes can follow pods into zones, and whether this holds whichever zone
// is in maintenance: they can if every compute zone is an available volume zone, and they cannot if
// an available compute zone is not a volume zone at all. A zone that no node label can hold counts
// as one without volumes.
func (z Lists) certain() (topology, certain bool) {
	if labeled(z.availableVolume).IsSuperset(z.Compute) {
		return true, true
	}
	return false, !z.of.Hides && len(z.unserved()) > 0
}

// unserved returns the available compute zones for which storage lists no usable zone.
func (z Lists) unserved() sets.Set[string] {
	return z.availableCompute.Difference(labeled(z.volume))
}

// Unserved returns the names of the available compute zones whose pods get no new volumes while
// topology is on, "" if there are none.
func (z Lists) Unserved() string { return listed(z.unserved()) }

// Instead says what to do about a zone without servers: to use one with both, or to turn topology
// off, which off says.
func (z Lists) Instead(off string) string {
	if shared := labeled(z.volume).Intersection(z.Compute); len(shared) > 0 {
		return "use one of " + listed(shared) + ", or " + off
	}
	return off
}

// labeled returns the zones that a node label can hold. The driver's part on the nodes changes the
// names of others to report the zone of a node, and the service does not know these.
func labeled(zones sets.Set[string]) sets.Set[string] {
	found := zones.Clone()
	maps.DeleteFunc(found, func(name string, _ sets.Empty) bool { return !isLabel(name) })
	return found
}

func isLabel(name string) bool { return len(validation.IsValidLabelValue(name)) == 0 }

// Fault describes the compute zones that no node label can hold, "" if there are none.
func (z Lists) Fault() string {
	found := z.Compute.Difference(labeled(z.Compute))
	if len(found) == 0 {
		return ""
	}
	return "node labels cannot hold the names of compute zones " + listed(found)
}

// first returns whether volumes can follow pods into zones, for a driver that was never deployed.
// Zones that are unavailable do not count, because maintenance cannot be distinguished from a zone
// that is out of use.
func (z Lists) first() (topology bool, err error) {
	if topology, certain := z.certain(); certain {
		return topology, nil
	}
	switch {
	case len(z.availableCompute) == 0:
		return false, errNoZones("compute service (Nova)", "lists no zone that is available")
	case len(z.availableVolume) == 0:
		return false, errNoZones(z.of.Service, "lists no zone that is available")
	}
	return labeled(z.availableVolume).IsSuperset(z.availableCompute), nil
}

// since describes the zones and how they changed; the zero value of before is unknown.
func (z Lists) since(before Lists) string {
	compute, volume := listed(z.Compute), listed(z.volume)
	if len(before.Compute) > 0 {
		compute, volume = listed(before.Compute)+" -> "+compute, listed(before.volume)+" -> "+volume
	}
	text := "compute zones " + compute + "; " + z.of.Noun + " zones " + volume
	if fault := z.Fault(); fault != "" {
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

// Misplaced returns the fields of the choices that name a zone without servers, each with the zone.
func (z Lists) Misplaced(config *choice.Config) (found []string) {
	check := func(at *field.Path, zone string) {
		if zone != "" && len(z.Compute) > 0 && !z.Compute.Has(zone) {
			found = append(found, fmt.Sprintf("%s: %q", at.Child("availability"), zone))
		}
	}
	if config != nil {
		check(field.NewPath("class"), config.Class.Availability)
		for i, class := range config.Classes {
			check(field.NewPath("classes").Index(i), class.Availability)
		}
	}
	return found
}
