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

// Generate makes the bundles of all drivers in an assets folder, sorted by driver and flavour. It writes nothing. Its
// error joins every fault found, each an *Error where a place to mend is known, sorted.
func Generate(assets fs.FS) ([]Output, error) {
	read, err := readLayers(assets)
	if err != nil {
		return nil, tidy(err)
	}
	var faults []error
	var assemblies []*assembly
	for _, folder := range slices.Sorted(maps.Keys(read.drivers)) {
		one := read.drivers[folder]
		for _, f := range slices.Sorted(slices.Values(one.content.Flavours)) {
			made, err := read.assemble(one, f)
			if made != nil {
				assemblies = append(assemblies, made)
			}
			faults = append(faults, err)
		}
	}
	faults = append(faults, checkHosts(assemblies), checkNeighbours(assemblies))
	if err := tidy(errors.Join(faults...)); err != nil {
		return nil, err
	}
	outputs := make([]Output, 0, len(assemblies))
	for _, made := range assemblies {
		output, err := made.output()
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, output)
	}
	return outputs, nil
}

// output puts the finished assets into a bundle, in the order to apply them.
func (a *assembly) output() (Output, error) {
	folder := filepath.Base(filepath.Dir(a.driver.file))
	finished := make([]bundle.Asset, 0, len(a.assets))
	for _, one := range slices.SortedFunc(maps.Values(a.assets), applyOrder) {
		one.Data = one.withProvenance(a.driver.file)
		finished = append(finished, one.Asset)
	}
	made, err := bundle.New(finished)
	if err != nil {
		return Output{}, fmt.Errorf("bundling %s for %s: %w", folder, a.flavour, err)
	}
	return Output{Driver: folder, Flavour: a.flavour, Bundle: made}, nil
}

// applyOrder puts what pods need before the pods: a pod whose ServiceAccount may not use its SCC yet is refused, and
// retried only after minutes.
func applyOrder(a, b *asset) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
}

func rank(one *asset) int {
	order := []string{
		"ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "ConfigMap", "Secret", "Service",
		"PodDisruptionBudget", "ServiceMonitor", "CSIDriver", "StorageClass", "VolumeSnapshotClass",
	}
	if at := slices.Index(order, one.kind()); at >= 0 {
		return at
	}
	if one.Role == bundle.ControllerWorkload || one.Role == bundle.NodeWorkload {
		return len(order) + 1
	}
	return len(order)
}

// Update generates all bundles of the assets folder root and writes them to drivers/<driver>/generated/<flavour>, where
// it leaves nothing else. Nothing is written when anything is wrong.
func Update(root string) error {
	outputs, err := Generate(os.DirFS(root))
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, output := range outputs {
		dir := filepath.Join(root, "drivers", output.Driver, filepath.FromSlash(bundle.Folder(output.Flavour)))
		if err := output.Bundle.Save(dir); err != nil {
			return fmt.Errorf("saving %s for %s: %w", output.Driver, output.Flavour, err)
		}
		kept[dir] = true
	}
	return removeStale(root, kept)
}

// removeStale deletes what an earlier run left for flavours and drivers which are no more.
func removeStale(root string, kept map[string]bool) error {
	found, err := filepath.Glob(filepath.Join(root, "drivers", "*", "generated", "*"))
	if err != nil {
		return fmt.Errorf("listing generated folders: %w", err)
	}
	for _, entry := range found {
		if kept[entry] {
			continue
		}
		if err := os.RemoveAll(entry); err != nil {
			return fmt.Errorf("removing stale output: %w", err)
		}
	}
	return nil
}

// tidy flattens joined errors, sorts them and drops repetitions: both flavours report what they share.
func tidy(err error) error {
	var all []error
	flatten(err, &all)
	slices.SortFunc(all, compareErrors)
	return errors.Join(slices.CompactFunc(all, func(a, b error) bool { return a.Error() == b.Error() })...)
}

func flatten(err error, all *[]error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			flatten(one, all)
		}
		return
	}
	*all = append(*all, err)
}

func compareErrors(a, b error) int {
	var left, right *Error
	if errors.As(a, &left) && errors.As(b, &right) {
		return cmp.Or(cmp.Compare(left.File, right.File), cmp.Compare(left.Line, right.Line),
			cmp.Compare(a.Error(), b.Error()))
	}
	return cmp.Compare(a.Error(), b.Error())
}
