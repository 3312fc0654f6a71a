package generator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/patch"
)

// assembly is one driver in one flavour, while its assets are made.
type assembly struct {
	*layers
	driver    declared[driver]
	flavour   flavour.Flavour
	values    map[string]string
	assets    map[string]*asset
	placed    []placement
	complete  map[string]bool // sidecars whose volumes and additions are there already
	listeners []listener
}

// placement is a sidecar's container in a workload.
type placement struct {
	part, container string
	traits          []string
}

// assemble makes the assets of a driver in a flavour. Each step finishes for all parts before the next begins.
func (l *layers) assemble(d declared[driver], f flavour.Flavour) (*assembly, error) {
	a := &assembly{
		layers: l, driver: d, flavour: f, values: buildValues(d.content),
		assets: map[string]*asset{}, complete: map[string]bool{},
	}
	steps := []func(string, *driverPart) error{
		a.addBase, a.patchWorkload, a.addSidecars, a.applyFlavour, a.applyPatches,
	}
	for _, step := range steps {
		var faults []error
		for part, p := range d.content.parts() {
			faults = append(faults, step(part, p))
		}
		if err := errors.Join(faults...); err != nil {
			return nil, err
		}
	}
	return a, a.check()
}

// buildValues returns the placeholders which driver.yaml settles. A port which it does not give has none.
func buildValues(d driver) map[string]string {
	values := map[string]string{"name": d.Name, "prefix": d.Prefix, "clusterPrefix": d.ClusterPrefix}
	for part, p := range d.parts() {
		values[part+".name"] = p.Name
		selector, _ := json.Marshal(p.Selector) // text keys and values cannot fail
		values[part+".selector"] = string(selector)
		for name, number := range map[string]int{"liveness": p.Ports.Liveness, "registrar": p.Ports.Registrar} {
			if number != 0 {
				values[part+"."+name] = strconv.Itoa(number)
			}
		}
	}
	return values
}

// addBase takes the base files which the driver does not decline, and the driver's own.
func (a *assembly) addBase(part string, p *driverPart) error {
	shared := a.base.content.part(part)
	faults := []error{a.addWorkload(part, shared.Workload)}
	declined := map[string]bool{}
	for i, one := range shared.Add {
		if name := path.Base(one.File); slices.Contains(p.Without, name) {
			declined[name] = true
			continue
		}
		faults = append(faults, a.add(a.base.manifest, one, a.base.at(part, "add", i), a.values))
	}
	for i, name := range p.Without {
		if !declined[name] {
			faults = append(faults, faultf(a.driver.at(part, "without", i), "the base has no %q", name))
		}
	}
	for i, one := range p.Add {
		faults = append(faults, a.add(a.driver.manifest, one, a.driver.at(part, "add", i), a.values))
	}
	return errors.Join(faults...)
}

func (a *assembly) addWorkload(part, file string) error {
	at := a.base.at(part, "workload")
	if file == "" {
		return faultf(at, "the base has no workload for the %s part", part)
	}
	one := addition{File: file, Side: flavour.ControlPlane, Role: bundle.ControllerWorkload}
	if part == nodePart {
		one.Side, one.Role = flavour.Guest, bundle.NodeWorkload
	}
	return a.add(a.base.manifest, one, at, a.values)
}

// workload returns the asset which is the workload of a part.
func (a *assembly) workload(part string) *asset {
	return a.assets[path.Base(a.base.content.part(part).Workload)]
}

// add makes an asset of a file.
func (a *assembly) add(m *manifest, one addition, at Position, values map[string]string) error {
	if !a.wanted(one.Only) {
		return nil
	}
	name := path.Base(one.File)
	if other := a.assets[name]; other != nil {
		return faultf(at, "two outputs of one name: %q is made for %s already", name, other.at)
	}
	text, err := a.read(m.beside(one.File), values)
	if err != nil {
		return err
	}
	data, err := patch.Canonical(text)
	if err != nil {
		return faultIn(m.beside(one.File), err)
	}
	if one.Role == "" {
		one.Role = bundle.Static
	}
	made := &asset{Asset: bundle.Asset{Name: name, Role: one.Role, Side: one.Side}, at: at}
	a.assets[name] = made
	return a.change(made, origin{file: m.beside(one.File), text: text}, data)
}

// read returns a layer's text with its build-time placeholders settled.
func (a *assembly) read(file string, values map[string]string) ([]byte, error) {
	text, err := fs.ReadFile(a.fsys, file)
	if err != nil {
		return nil, fmt.Errorf("reading layer: %w", err)
	}
	settled, err := settle(file, text, values)
	if err != nil {
		return nil, err
	}
	return settled, oneDocument(file, settled)
}

func (a *assembly) wanted(only []flavour.Flavour) bool {
	return len(only) == 0 || slices.Contains(only, a.flavour)
}

// patchWorkload makes the base workload the driver's.
func (a *assembly) patchWorkload(part string, p *driverPart) error {
	entry := patchEntry{Target: a.workload(part).Name, Merge: p.Workload}
	return a.patch(a.driver.manifest, entry, a.driver.at(part, "workload"), a.values)
}

// applyFlavour changes and removes what the flavour's layer says. What the driver declined is no target.
func (a *assembly) applyFlavour(part string, _ *driverPart) error {
	shared := a.flavours[a.flavour]
	var faults []error
	for i, entry := range shared.content.part(part).Patches {
		if a.declines(part, entry.Target) {
			continue
		}
		at := shared.at(part, "patches", i)
		for _, each := range a.spread(part, entry) {
			faults = append(faults, a.patch(shared.manifest, each, at, a.values))
		}
	}
	for i, name := range shared.content.part(part).Drop {
		if a.assets[name] == nil && !a.declines(part, name) {
			faults = append(faults, faultf(shared.at(part, "drop", i), "nothing to drop: %s", a.missing(name)))
		}
		delete(a.assets, name)
	}
	return errors.Join(faults...)
}

// spread turns a patch for a trait into one patch for each sidecar which has it.
func (a *assembly) spread(part string, entry patchEntry) []patchEntry {
	if entry.Trait == "" {
		return []patchEntry{entry}
	}
	var each []patchEntry
	for _, one := range a.placed {
		if one.part == part && slices.Contains(one.traits, entry.Trait) {
			entry.Container = one.container
			each = append(each, entry)
		}
	}
	return each
}

// applyPatches applies the driver's patches, as written.
func (a *assembly) applyPatches(part string, p *driverPart) error {
	for i, entry := range p.Patches {
		if err := a.patch(a.driver.manifest, entry, a.driver.at(part, "patches", i), a.values); err != nil {
			return err
		}
	}
	return nil
}

// declines tells whether the driver does without a base file: shared layers then leave it alone.
func (a *assembly) declines(part, name string) bool {
	for other, p := range a.driver.content.parts() {
		if other == part && slices.Contains(p.Without, name) {
			return true
		}
	}
	return false
}

// missing says that there is no asset of a name, and which there are.
func (a *assembly) missing(name string) string {
	return fmt.Sprintf("there is no %q, only %q", name, slices.Sorted(maps.Keys(a.assets)))
}
