package generator

import (
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// validate reports what strict decoding cannot see: values which are missing, contradictory or unknown.
func (l *layers) validate() error {
	var faults []error
	for _, one := range l.drivers {
		faults = append(faults, validateDriver(one))
	}
	faults = append(faults, l.validateNeighbours())
	for _, one := range l.sidecars {
		faults = append(faults, checkAdditions(one.manifest, one.content.Add, nil, "add"))
		faults = append(faults, checkPatches(one.manifest, one.content.Each, nil, "each"))
		faults = append(faults, forbidTraits(one.manifest, one.content.Each, "each"))
		for option, added := range one.content.With {
			faults = append(faults, checkAdditions(one.manifest, added, nil, "with", option))
		}
	}
	for _, one := range slices.AppendSeq([]declared[layer]{l.base}, maps.Values(l.flavours)) {
		for _, part := range []string{controllerPart, nodePart} {
			p := one.content.part(part)
			faults = append(faults, checkAdditions(one.manifest, p.Add, nil, part, "add"))
			faults = append(faults, checkPatches(one.manifest, p.Patches, nil, part, "patches"))
		}
	}
	return errors.Join(faults...)
}

func validateDriver(one declared[driver]) error {
	d := one.content
	faults := []error{
		named(one.manifest, d.Name, isDriverName, "name"),
		named(one.manifest, d.Prefix, validation.IsDNS1123Label, "prefix"),
		named(one.manifest, d.ClusterPrefix, validation.IsDNS1123Label, "clusterPrefix"),
	}
	if len(d.Flavours) == 0 {
		faults = append(faults, faultf(one.at(), "flavours: at least one is required"))
	}
	if d.Controller == nil && d.Node == nil {
		faults = append(faults, faultf(one.at(), "a driver has a controller, a node part, or both"))
	}
	for part, p := range d.parts() {
		at := one.at(part)
		faults = append(faults, named(one.manifest, p.Name, validation.IsDNS1123Label, part, "name"))
		faults = append(faults, required(at, "workload", p.Workload))
		faults = append(faults, validateSelector(one.manifest, p.Selector, part, "selector"))
		for i, metrics := range p.Metrics {
			faults = append(faults, named(one.manifest, metrics.Port, validation.IsValidPortName, part, "metrics", i, "port"))
			faults = append(faults, named(one.manifest, metrics.Proxy, validation.IsDNS1123Label, part, "metrics", i, "proxy"))
		}
		faults = append(faults, checkAdditions(one.manifest, p.Add, d.Flavours, part, "add"))
		faults = append(faults, checkPatches(one.manifest, p.Patches, d.Flavours, part, "patches"))
		faults = append(faults, forbidTraits(one.manifest, p.Patches, part, "patches"))
		for i, use := range p.Sidecars {
			faults = append(faults, checkOnly(one.at(part, "sidecars", i), use.Only, d.Flavours))
		}
	}
	return errors.Join(faults...)
}

func required(at Position, key, value string) error {
	if value == "" {
		return faultf(at, "%s is required", key)
	}
	return nil
}

// named insists on a name, which is the value at a path of the manifest, and on its form.
func named(m *manifest, name string, form func(string) []string, steps ...any) error {
	key := steps[len(steps)-1]
	if name == "" {
		return faultf(m.at(steps[:len(steps)-1]...), "%s is required", key)
	}
	if messages := form(name); messages != nil {
		return faultf(m.at(steps...), "%s %q: %s", key, name, messages[0])
	}
	return nil
}

// isDriverName returns what is wrong with the name of a CSI driver.
func isDriverName(name string) []string {
	const longest = 63 // says the CSI specification
	if len(name) > longest {
		return []string{validation.MaxLenError(longest)}
	}
	return validation.IsDNS1123Subdomain(name)
}

func validateSelector(m *manifest, selector map[string]string, steps ...any) error {
	if len(selector) == 0 {
		return faultf(m.at(steps[:len(steps)-1]...), "selector is required")
	}
	if _, err := labels.ValidatedSelectorFromSet(selector); err != nil {
		return faultf(m.at(steps...), "selector: %w", err)
	}
	return nil
}

func checkAdditions(m *manifest, added []addition, flavours []flavour.Flavour, steps ...any) error {
	var faults []error
	for i, one := range added {
		at := m.at(append(slices.Clone(steps), i)...)
		faults = append(faults, required(at, "file", one.File), checkOnly(at, one.Only, flavours))
		if !slices.Contains(flavour.Sides(), one.Side) {
			faults = append(faults, faultf(at, "unknown side %q: want one of %q", one.Side, flavour.Sides()))
		}
		if one.Role != "" && !slices.Contains(bundle.Roles(), one.Role) {
			faults = append(faults, faultf(at, "unknown role %q: want one of %q", one.Role, bundle.Roles()))
		}
	}
	return errors.Join(faults...)
}

func checkPatches(m *manifest, entries []patchEntry, flavours []flavour.Flavour, steps ...any) error {
	var faults []error
	for i, one := range entries {
		at := m.at(append(slices.Clone(steps), i)...)
		faults = append(faults, required(at, "target", one.Target), checkOnly(at, one.Only, flavours))
		if (one.Merge == "") == (one.JSON6902 == "") {
			faults = append(faults, faultf(at, "a patch has either merge or json6902"))
		}
		if one.Merge != "" && one.Container+one.Trait != "" {
			faults = append(faults, faultf(at, "container and trait are for json6902: a merge names its containers"))
		}
		if one.Container != "" && one.Trait != "" {
			faults = append(faults, faultf(at, "a patch has container or trait, not both"))
		}
	}
	return errors.Join(faults...)
}

// forbidTraits keeps traits to the layers: whoever knows which sidecars there are names the container.
func forbidTraits(m *manifest, entries []patchEntry, steps ...any) error {
	var faults []error
	for i, one := range entries {
		if one.Trait != "" {
			faults = append(faults, faultf(m.at(append(slices.Clone(steps), i)...), "trait is for layers: name the container"))
		}
	}
	return errors.Join(faults...)
}

// checkOnly reports conditions which never hold. A nil list of flavours is that of a shared layer: any.
func checkOnly(at Position, only, flavours []flavour.Flavour) error {
	for _, f := range only {
		if flavours != nil && !slices.Contains(flavours, f) {
			return faultf(at, "only: the driver has no flavour %q", f)
		}
	}
	return nil
}
