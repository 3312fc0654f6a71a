package generator

import (
	"errors"
	"maps"
	"slices"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// validate reports what strict decoding cannot see: values which are missing, contradictory or unknown.
func (l *layers) validate() error {
	var faults []error
	for _, one := range l.drivers {
		faults = append(faults, validateDriver(one))
	}
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
		required(one.at(), "name", d.Name), required(one.at(), "prefix", d.Prefix),
		required(one.at(), "clusterPrefix", d.ClusterPrefix),
	}
	if len(d.Flavours) == 0 {
		faults = append(faults, faultf(one.at(), "flavours: at least one is required"))
	}
	if d.Controller == nil && d.Node == nil {
		faults = append(faults, faultf(one.at(), "a driver has a controller, a node part, or both"))
	}
	for part, p := range d.parts() {
		at := one.at(part)
		faults = append(faults, required(at, "name", p.Name), required(at, "workload", p.Workload))
		if len(p.Selector) == 0 {
			faults = append(faults, faultf(at, "selector is required"))
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

func checkAdditions(m *manifest, added []addition, flavours []flavour.Flavour, steps ...any) error {
	var faults []error
	for i, one := range added {
		at := m.at(append(slices.Clone(steps), i)...)
		faults = append(faults, required(at, "file", one.File), checkOnly(at, one.Only, flavours))
		if !slices.Contains(bundle.Sides(), one.Side) {
			faults = append(faults, faultf(at, "unknown side %q: want one of %q", one.Side, bundle.Sides()))
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
