package generator

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// Output is the bundle of one driver in one flavour, and the manifests that install its operator.
type Output struct {
	Driver  string // the name of its folder
	Flavour flavour.Flavour
	Bundle  *bundle.Bundle
	// CSIAddons contains the assets that are new or differ with CSI-Addons, nil if the driver does not
	// support it.
	CSIAddons *bundle.Bundle
	// Manifests are the files that install the operator, by their paths relative to the folder of the
	// bundle. A companion has none.
	Manifests map[string][]byte
}

// Generate returns the bundles of all drivers in an assets folder, sorted by driver and flavour.
// Its error joins every error that it finds, sorted; those in a layer are of type *Error.
func Generate(assets fs.FS) ([]Output, error) {
	l, err := readLayers(assets)
	if err != nil {
		return nil, errors.Join(position.Sorted(err)...)
	}
	var errs []error
	var assemblies []*assembly
	for _, folder := range slices.Sorted(maps.Keys(l.drivers)) {
		d := l.drivers[folder]
		for _, f := range slices.Sorted(slices.Values(d.content.Flavours)) {
			a, err := l.assemble(d, f)
			if a != nil {
				assemblies = append(assemblies, a)
			}
			errs = append(errs, err)
		}
	}
	complete := withCSIAddons(assemblies)
	errs = append(errs, checkHostPorts(complete), checkConflicts(complete))
	if err := errors.Join(position.Sorted(errors.Join(errs...))...); err != nil {
		return nil, err
	}
	outputs := make([]Output, 0, len(assemblies))
	for _, a := range assemblies {
		output, err := a.output()
		if err != nil {
			return nil, err
		}
		output.Manifests, err = l.install(a, assemblies)
		errs = append(errs, err)
		outputs = append(outputs, output)
	}
	return outputs, errors.Join(position.Sorted(errors.Join(errs...))...)
}

// withCSIAddons returns the assemblies, each with CSI-Addons if its driver supports it.
func withCSIAddons(assemblies []*assembly) []*assembly {
	complete := make([]*assembly, 0, len(assemblies))
	for _, a := range assemblies {
		complete = append(complete, cmp.Or(a.withCSIAddons, a))
	}
	return complete
}

// output returns the bundles of the assets.
func (a *assembly) output() (Output, error) {
	base, err := a.bundle(a.assets)
	if err != nil || a.withCSIAddons == nil {
		return Output{Driver: a.folder(), Flavour: a.flavour, Bundle: base}, err
	}
	addons, err := a.bundle(a.csiAddonsAssets())
	return Output{Driver: a.folder(), Flavour: a.flavour, Bundle: base, CSIAddons: addons}, err
}

// csiAddonsAssets returns the assets that are new or differ with CSI-Addons, by name.
func (a *assembly) csiAddonsAssets() map[string]*asset {
	if a.withCSIAddons == nil {
		return nil
	}
	differing := maps.Clone(a.withCSIAddons.assets)
	maps.DeleteFunc(differing, func(name string, with *asset) bool {
		return with.equal(a.assets[name])
	})
	return differing
}

// bundle returns the bundle of assets, in the order to apply them.
func (a *assembly) bundle(assets map[string]*asset) (*bundle.Bundle, error) {
	bundled := make([]bundle.Asset, 0, len(assets))
	for _, asset := range slices.SortedFunc(maps.Values(assets), applyOrder) {
		withHeader := asset.Asset
		withHeader.Data = asset.withHeader(a.driver.File)
		bundled = append(bundled, withHeader)
	}
	b, err := bundle.New(bundled)
	if err != nil {
		return nil, fmt.Errorf("bundling %s for %s: %w", a.folder(), a.flavour, err)
	}
	return b, nil
}

// applyOrder puts the objects that pods need before the workloads: the API server rejects a pod
// whose ServiceAccount may not use its SCC yet, and the next attempt follows only after minutes.
func applyOrder(a, b *asset) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Name, b.Name))
}

func (a *asset) rank() int {
	order := []string{
		"Namespace", "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding",
		"ConfigMap", "Secret", "Service", "PodDisruptionBudget", "ServiceMonitor", "CSIDriver",
		"StorageClass", "VolumeSnapshotClass",
	}
	if i := slices.Index(order, a.kind()); i >= 0 {
		return i
	}
	if a.Role == bundle.ControllerWorkload || a.Role == bundle.NodeWorkload {
		return len(order) + 1
	}
	return len(order)
}

// Update generates the bundles of the assets folder root and writes them to
// drivers/<driver>/generated/<flavour>, with the manifests of operators in folders there, the
// OLM bundle of CSI-Addons to csi-addons/generated, the dashboard to
// monitoring/kubernetes/generated, and the Helm chart to helm/generated. It removes all other files
// there. If there is an error in the layers, it writes nothing.
func Update(root string) error {
	outputs, err := Generate(os.DirFS(root))
	if err != nil {
		return err
	}
	addons, err := csiAddonsBundle(os.DirFS(root))
	if err != nil {
		return err
	}
	boards, err := dashboards(os.DirFS(root))
	if err != nil {
		return err
	}
	if err := errors.Join(replaceFiles(root, csiAddonsGenerated, addons),
		replaceFiles(root, dashboardGenerated, boards)); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, output := range outputs {
		folder := filepath.FromSlash(bundle.Folder(output.Flavour))
		dir := filepath.Join(root, "drivers", output.Driver, folder)
		err := errors.Join(output.Bundle.Save(dir), writeManifests(dir, output.Manifests))
		if output.CSIAddons != nil {
			folder := filepath.FromSlash(bundle.CSIAddonsFolder(output.Flavour))
			addons := filepath.Join(root, "drivers", output.Driver, folder)
			err = errors.Join(err, output.CSIAddons.Save(addons))
		}
		if err != nil {
			return fmt.Errorf("saving %s for %s: %w", output.Driver, output.Flavour, err)
		}
		written[dir] = true
	}
	if err := removeStale(root, written); err != nil {
		return err
	}
	files, err := chart(os.DirFS(root)) // it contains the manifests of the operators
	if err != nil {
		return err
	}
	return replaceFiles(root, chartGenerated, files)
}

// replaceFiles writes files to an output folder, and removes all other files there.
func replaceFiles(root, folder string, files map[string][]byte) error {
	dir := filepath.Join(root, filepath.FromSlash(folder))
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing stale output: %w", err)
	}
	return writeManifests(dir, files)
}

// writeManifests writes files below a folder without stale files.
func writeManifests(dir string, files map[string][]byte) error {
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("creating folder of manifests: %w", err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return fmt.Errorf("writing manifest: %w", err)
		}
	}
	return nil
}

func removeStale(root string, written map[string]bool) error {
	folders, err := filepath.Glob(filepath.Join(root, "drivers", "*", "generated", "*"))
	if err != nil {
		return fmt.Errorf("listing generated folders: %w", err)
	}
	for _, folder := range folders {
		if written[folder] {
			continue
		}
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("removing stale output: %w", err)
		}
	}
	return nil
}
