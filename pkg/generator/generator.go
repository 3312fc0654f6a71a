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
)

// Output is the bundle of one driver in one flavour.
type Output struct {
	Driver  string // the name of its folder
	Flavour flavour.Flavour
	Bundle  *bundle.Bundle
}

// Generate returns the bundles of all drivers in an assets folder, sorted by driver and flavour.
// Its error joins every error that it finds, sorted; those in a layer are of type *Error.
func Generate(assets fs.FS) ([]Output, error) {
	l, err := readLayers(assets)
	if err != nil {
		return nil, sorted(err)
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
	errs = append(errs, checkHostPorts(assemblies), checkConflicts(assemblies))
	if err := sorted(errors.Join(errs...)); err != nil {
		return nil, err
	}
	outputs := make([]Output, 0, len(assemblies))
	for _, a := range assemblies {
		output, err := a.output()
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, output)
	}
	return outputs, nil
}

// output returns the bundle of the assets, in the order to apply them.
func (a *assembly) output() (Output, error) {
	folder := filepath.Base(filepath.Dir(a.driver.file))
	assets := make([]bundle.Asset, 0, len(a.assets))
	for _, asset := range slices.SortedFunc(maps.Values(a.assets), applyOrder) {
		asset.Data = asset.withHeader(a.driver.file)
		assets = append(assets, asset.Asset)
	}
	b, err := bundle.New(assets)
	if err != nil {
		return Output{}, fmt.Errorf("bundling %s for %s: %w", folder, a.flavour, err)
	}
	return Output{Driver: folder, Flavour: a.flavour, Bundle: b}, nil
}

// applyOrder puts the objects that pods need before the workloads: the API server rejects a pod
// whose ServiceAccount may not use its SCC yet, and the next attempt follows only after minutes.
func applyOrder(a, b *asset) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Name, b.Name))
}

func (a *asset) rank() int {
	order := []string{
		"ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "ConfigMap",
		"Secret", "Service", "PodDisruptionBudget", "ServiceMonitor", "CSIDriver", "StorageClass",
		"VolumeSnapshotClass",
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
// drivers/<driver>/generated/<flavour>. It removes all other files there. If there is an error in
// the layers, it writes nothing.
func Update(root string) error {
	outputs, err := Generate(os.DirFS(root))
	if err != nil {
		return err
	}
	written := map[string]bool{}
	for _, output := range outputs {
		folder := filepath.FromSlash(bundle.Folder(output.Flavour))
		dir := filepath.Join(root, "drivers", output.Driver, folder)
		if err := output.Bundle.Save(dir); err != nil {
			return fmt.Errorf("saving %s for %s: %w", output.Driver, output.Flavour, err)
		}
		written[dir] = true
	}
	return removeStale(root, written)
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
