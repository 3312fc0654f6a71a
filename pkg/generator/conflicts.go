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
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// checkNames reports names that belong to two drivers, at both of them. A companion driver has the
// names of the driver that it accompanies.
func (l *layers) checkNames() error {
	var errs []error
	for folder, m := range l.drivers {
		leader, known := l.drivers[m.content.CompanionOf]
		if m.content.CompanionOf != "" && (!known || leader.content.CompanionOf != "") {
			errs = append(errs, m.Errorf("companionOf",
				"companionOf: %q is not a driver, or is itself a companion", m.content.CompanionOf))
		}
		for other, otherDriver := range l.drivers {
			if cmp.Or(m.content.CompanionOf, folder) == cmp.Or(otherDriver.content.CompanionOf, other) {
				continue
			}
			names := otherDriver.content.names()
			for key, value := range m.content.names() {
				if value == names[key] {
					errs = append(errs, m.Errorf(key, "%s %q is also the %s of driver %q", key, value, key, other))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// names returns the values that no two drivers share, by their keys.
func (d driver) names() map[string]string {
	names := map[string]string{"name": d.Name, "prefix": d.Prefix, "clusterPrefix": d.ClusterPrefix}
	if d.Operator != nil {
		names["operator.name"] = d.Operator.Name
	}
	return names
}

// checkConflicts reports objects that two drivers define in one flavour, and pods that two
// workloads select.
func checkConflicts(assemblies []*assembly) error {
	defined := map[string]position.Position{}
	var errs []error
	for i, a := range assemblies {
		for _, name := range slices.Sorted(maps.Keys(a.assets)) {
			asset := a.assets[name]
			key, err := a.identity(asset)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			at := a.inDriver(asset)
			if other, taken := defined[key]; taken {
				errs = append(errs, position.ErrorAt(at, "%q is an object that %s also defines: "+
					"its name needs ${prefix} or ${clusterPrefix}", asset.Name, other))
				continue
			}
			defined[key] = at
		}
		for _, other := range assemblies[:i+1] {
			errs = append(errs, a.checkSelectors(other))
		}
	}
	return errors.Join(errs...)
}

// inDriver returns the position in driver.yaml that an asset comes from.
func (a *assembly) inDriver(asset *asset) position.Position {
	if asset.at.File == a.driver.File {
		return asset.at
	}
	for part := range a.driver.content.parts() {
		if a.workload(part) == asset {
			return a.driver.source(part, "name").position()
		}
	}
	return position.Position{File: a.driver.File, Line: 1}
}

// identity names an object across clusters. Standalone both sides are one cluster.
func (a *assembly) identity(asset *asset) (string, error) {
	object, err := meta.Accessor(asset.object)
	if err != nil {
		return "", position.ErrorAt(asset.at, "reading the name of %q: %w", asset.Name, err)
	}
	side := asset.Side
	if a.flavour == flavour.Standalone {
		side = ""
	}
	return fmt.Sprintf("%s %s %s %s/%s",
		a.flavour, side, asset.kind(), object.GetNamespace(), object.GetName()), nil
}

// checkSelectors reports workloads that select each other's pods.
func (a *assembly) checkSelectors(other *assembly) error {
	var errs []error
	for part := range a.driver.content.parts() {
		for otherPart := range other.driver.content.parts() {
			compared := a == other && part >= otherPart || a.flavour != other.flavour
			if compared || !a.selects(part, other, otherPart) && !other.selects(otherPart, a, part) {
				continue
			}
			at := other.driver.source(otherPart, "selector").position()
			errs = append(errs, a.driver.source(part, "selector").errorf(
				"the selector matches pods of the %s part at %s", otherPart, at))
		}
	}
	return errors.Join(errs...)
}

// selects reports whether a part's selector matches the pods of another part.
func (a *assembly) selects(part string, other *assembly, otherPart string) bool {
	selector := labels.SelectorFromSet(a.driver.content.part(part).Selector)
	return selector.Matches(labels.Set(podTemplate(other.workload(otherPart)).Labels))
}
