package generator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// validateNeighbours reports names that two drivers have, at both: which one is wrong is for people to know. A companion
// shares those of its leader.
func (l *layers) validateNeighbours() error {
	var faults []error
	for folder, one := range l.drivers {
		leads := l.drivers[one.content.CompanionOf].content.CompanionOf == ""
		if _, known := l.drivers[one.content.CompanionOf]; one.content.CompanionOf != "" && (!known || !leads) {
			faults = append(faults, faultf(one.at("companionOf"), "companionOf: %q is no driver, or a companion itself", one.content.CompanionOf))
		}
		for other, neighbour := range l.drivers {
			if leader(folder, one) == leader(other, neighbour) {
				continue
			}
			theirs := neighbour.content.names()
			for key, value := range one.content.names() {
				if value == theirs[key] {
					faults = append(faults, faultf(one.at(key), "%s %q is that of driver %q too", key, value, other))
				}
			}
		}
	}
	return errors.Join(faults...)
}

// leader returns the folder of the driver whose names a driver has.
func leader(folder string, one declared[driver]) string {
	return cmp.Or(one.content.CompanionOf, folder)
}

// names are what no two drivers share.
func (d driver) names() map[string]string {
	return map[string]string{"name": d.Name, "prefix": d.Prefix, "clusterPrefix": d.ClusterPrefix}
}

// checkNeighbours reports objects that two drivers would write in one flavour, and pods that two workloads would count as theirs.
func checkNeighbours(assemblies []*assembly) error {
	written := map[string]Position{}
	var faults []error
	for i, a := range assemblies {
		for _, name := range slices.Sorted(maps.Keys(a.assets)) {
			one := a.assets[name]
			key, err := a.identity(one)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			if other, taken := written[key]; taken {
				faults = append(faults, faultf(a.source(one), "%q is an object that %s makes too: its name needs ${prefix} or ${clusterPrefix}",
					one.Name, other))
				continue
			}
			written[key] = a.source(one)
		}
		for _, other := range assemblies[:i+1] {
			faults = append(faults, a.checkSelectors(other))
		}
	}
	return errors.Join(faults...)
}

// source returns the place in the driver's manifest to which an asset is due.
func (a *assembly) source(one *asset) Position {
	if one.at.File == a.driver.file {
		return one.at
	}
	for part := range a.driver.content.parts() {
		if a.workload(part) == one {
			return a.driver.at(part, "name")
		}
	}
	return a.driver.at()
}

// identity names the object in its cluster; the sides are one cluster or two.
func (a *assembly) identity(one *asset) (string, error) {
	object, err := meta.Accessor(one.object)
	if err != nil {
		return "", faultf(one.at, "reading the name of %q: %w", one.Name, err)
	}
	side := one.Side
	if a.flavour == flavour.Standalone {
		side = ""
	}
	return fmt.Sprintf("%s %s %s %s/%s", a.flavour, side, one.kind(), object.GetNamespace(), object.GetName()), nil
}

// checkSelectors insists that no workload selects the pods of another one.
func (a *assembly) checkSelectors(other *assembly) error {
	var faults []error
	for part := range a.driver.content.parts() {
		for otherPart := range other.driver.content.parts() {
			same := a == other && part >= otherPart
			if same || a.flavour != other.flavour || !a.selects(part, other, otherPart) && !other.selects(otherPart, a, part) {
				continue
			}
			faults = append(faults, faultf(a.driver.at(part, "selector"), "the selector matches pods of the %s part at %s",
				otherPart, other.driver.at(otherPart, "selector")))
		}
	}
	return errors.Join(faults...)
}

// selects tells whether a part's selector matches the pods of another part.
func (a *assembly) selects(part string, other *assembly, otherPart string) bool {
	for own, p := range a.driver.content.parts() {
		if own == part {
			pods := podTemplate(other.workload(otherPart)).Labels
			return labels.SelectorFromSet(p.Selector).Matches(labels.Set(pods))
		}
	}
	return false
}
