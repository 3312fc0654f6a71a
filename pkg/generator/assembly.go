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
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/patch"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// assembly makes the assets of one driver in one flavour.
type assembly struct {
	*layers
	driver  manifest[driver]
	flavour flavour.Flavour
	// withCSIAddons is the same assembly with CSI-Addons, nil if the driver does not support it.
	withCSIAddons *assembly
	// csiAddons says that this assembly contains CSI-Addons, and apiServerTokens that it also contains
	// what needs tokens for the API server.
	csiAddons, apiServerTokens bool

	values     map[string]string
	assets     map[string]*asset
	containers []sidecarContainer
	completed  map[string]bool       // sidecars whose volumes and additions are added
	ports      map[string][]usedPort // by part, those with metrics
}

// assemble makes the assets of a driver in a flavour, without and with CSI-Addons.
func (l *layers) assemble(d manifest[driver], f flavour.Flavour) (*assembly, error) {
	a, err := l.newAssembly(d, f).assemble()
	if err != nil || !d.content.hasCSIAddons() {
		return a, err
	}
	own := l.newAssembly(d, f)
	own.csiAddons = true
	if _, err := own.assemble(); err != nil {
		return a, err
	}
	with := l.newAssembly(d, f)
	with.csiAddons, with.apiServerTokens = true, true
	if a.withCSIAddons, err = with.assemble(); err != nil {
		return a, err
	}
	return a, a.markAPIServerTokens(own)
}

// markAPIServerTokens marks the assets that the driver has, or changes, only while the sidecars
// accept tokens for the API server. own are the assets with CSI-Addons and without these tokens.
func (a *assembly) markAPIServerTokens(own *assembly) error {
	for name, asset := range a.withCSIAddons.assets {
		base, without := a.assets[name], own.assets[name]
		asset.APIServerTokens = !asset.equal(without)
		if asset.APIServerTokens && without != nil && !without.equal(base) {
			return position.ErrorAt(asset.at, "%q changes in two ways with CSI-Addons, one of them with "+
				"apiServerTokens", name)
		}
	}
	return nil
}

// adds reports whether the assembly contains the sidecars and patches of an extension.
func (a *assembly) adds(e extension) bool {
	return a.csiAddons && (a.apiServerTokens || !e.APIServerTokens)
}

func (a *assembly) empty() *assembly {
	empty := a.newAssembly(a.driver, a.flavour)
	empty.values = maps.Clone(a.values)
	return empty
}

func (l *layers) newAssembly(d manifest[driver], f flavour.Flavour) *assembly {
	return &assembly{
		layers: l, driver: d, flavour: f, values: l.buildValues(d.content, f),
		assets: map[string]*asset{}, completed: map[string]bool{}, ports: map[string][]usedPort{},
	}
}

// assemble makes the assets. Each step finishes for all parts before the next one starts.
func (a *assembly) assemble() (*assembly, error) {
	steps := []func(string, *driverPart) error{
		a.addBase, a.patchWorkload, a.addSidecars,
		func(part string, p *driverPart) error { return a.applyFlavour(part, p.changes) },
		func(part string, p *driverPart) error { return a.applyPatches(part, p.changes) },
		a.applyCSIAddons,
	}
	for _, step := range steps {
		var errs []error
		for part, p := range a.driver.content.parts() {
			errs = append(errs, step(part, p))
		}
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return a, a.applyToEach()
}

// buildValues returns the values of the build-time placeholders. A port that driver.yaml does not
// allocate has no placeholder.
func (l *layers) buildValues(d driver, f flavour.Flavour) map[string]string {
	values := d.names()
	values["name"] = d.nameIn(f)
	for name, value := range l.flavours[f].content.Values {
		values[name] = strings.ReplaceAll(value, "${clusterPrefix}", d.ClusterPrefix)
	}
	for part, p := range d.parts() {
		values[part+".name"] = p.Name
		all := labels.Merge(p.Selector, l.flavours[f].content.Selector)
		selector, _ := json.Marshal(all) // a map of strings cannot fail
		values[part+".selector"] = string(selector)
		for name, number := range p.Ports.byName() {
			values[part+"."+name] = strconv.Itoa(number)
		}
	}
	return values
}

func (a *assembly) addBase(part string, p *driverPart) error {
	workload := a.addWorkload(part, a.base.content.part(part).Workload)
	return errors.Join(workload, a.addFiles(part, p.changes))
}

// addFiles adds the base files that the driver does not leave out, and the driver's own.
func (a *assembly) addFiles(part string, p changes) error {
	base := a.base.content.part(part)
	var errs []error
	leftOut := map[string]bool{}
	for i, added := range base.Add {
		if name := path.Base(added.File); slices.Contains(p.Without, name) {
			leftOut[name] = true
			continue
		}
		errs = append(errs, a.add(a.base.source(part, "add").index(i), added, a.values))
	}
	for i, name := range p.Without {
		if !leftOut[name] {
			errs = append(errs, a.driver.source(part, "without").index(i).errorf("the base has no %q", name))
		}
	}
	for i, added := range p.Add {
		errs = append(errs, a.add(a.driver.source(part, "add").index(i), added, a.values))
	}
	return errors.Join(errs...)
}

func (a *assembly) addWorkload(part, file string) error {
	from := a.base.source(part, "workload")
	if file == "" {
		return from.errorf("the base has no workload for the %s part", part)
	}
	added := addition{File: file, Side: flavour.ControlPlane, Role: bundle.ControllerWorkload}
	if part == nodePart {
		added.Side, added.Role = flavour.Guest, bundle.NodeWorkload
	}
	return a.add(from, added, a.values)
}

func (a *assembly) workload(part string) *asset {
	return a.assets[path.Base(a.base.content.part(part).Workload)]
}

func (a *assembly) add(from source, added addition, values map[string]string) error {
	if !a.has(added.Only) {
		return nil
	}
	name := path.Base(added.File)
	if other := a.assets[name]; other != nil {
		return from.errorf("two outputs with one name: %q is already made for %s", name, other.at)
	}
	if !slices.Contains(flavour.Sides(), added.Side) {
		return from.errorf("%q has side %q, not one of %q", name, added.Side, flavour.Sides())
	}
	layer, err := a.read(from, added.File, values)
	if err != nil {
		return err
	}
	data, err := patch.Canonical(layer.Text)
	if err != nil {
		return layer.Errorf("", "%w", err)
	}
	if added.Role == "" {
		added.Role = bundle.Static
	}
	a.assets[name] = &asset{
		Asset: bundle.Asset{Name: name, Role: added.Role, Side: added.Side}, at: from.position(),
		grants: added.Grants,
	}
	return a.change(a.assets[name], layer, data)
}

// read returns a layer that a manifest names, with its build-time placeholders replaced.
func (a *assembly) read(from source, name string, values map[string]string) (*document, error) {
	file := from.beside(name)
	text, err := fs.ReadFile(a.fsys, file)
	if err != nil {
		return nil, from.errorf("%w", err)
	}
	filled, err := fill(file, text, values)
	if err != nil {
		return nil, err
	}
	return parse(file, filled)
}

// has reports whether the flavour is one of a list. An empty list means every flavour.
func (a *assembly) has(only []flavour.Flavour) bool {
	return len(only) == 0 || slices.Contains(only, a.flavour)
}

func (a *assembly) patchWorkload(part string, p *driverPart) error {
	entry := patchEntry{Target: a.workload(part).Name, Merge: p.Workload}
	return a.patch(a.driver.source(part, "workload"), entry, a.values)
}

func (a *assembly) applyFlavour(part string, p changes) error {
	layer := a.flavours[a.flavour]
	patches := layer.content.part(part).Patches
	return a.applyEach(layer.source(part, "patches"), patches, a.values, p.Without...)
}

func (a *assembly) applyPatches(part string, p changes) error {
	return a.applyEach(a.driver.source(part, "patches"), p.Patches, a.values)
}

// applyCSIAddons applies the patches for CSI-Addons. addSidecars adds its sidecars.
func (a *assembly) applyCSIAddons(part string, p *driverPart) error {
	if !a.adds(p.CSIAddons) {
		return nil
	}
	from := a.driver.source(part, "csiAddons", "patches")
	return a.applyEach(from, p.CSIAddons.Patches, a.values)
}

// applyEach applies patches, except those of the targets that the driver leaves out.
func (a *assembly) applyEach(
	from source, entries []patchEntry, values map[string]string, without ...string,
) error {
	var errs []error
	for i, entry := range entries {
		if !slices.Contains(without, entry.Target) {
			errs = append(errs, a.patch(from.index(i), entry, values))
		}
	}
	return errors.Join(errs...)
}

// missing returns the message that an asset does not exist, with the assets that do.
func (a *assembly) missing(name string) string {
	return fmt.Sprintf("there is no %q, only %q", name, slices.Sorted(maps.Keys(a.assets)))
}
