package generator

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/patch"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// Generate returns the generated files of an assets folder by their paths there, without those of
// the Helm chart: the bundles of all drivers with the manifests that install their operators, the
// OLM bundles of CSI-Addons and the dashboard. Its error joins every error that it finds, sorted;
// those in a layer are of type *position.Error.
func Generate(assets fs.FS) (map[string][]byte, error) {
	files, err := generate(assets)
	return files, errors.Join(position.Sorted(err)...)
}

func generate(assets fs.FS) (map[string][]byte, error) {
	l, err := readLayers(assets)
	if err != nil {
		return nil, err
	}
	var errs []error
	var assemblies []*assembly
	for _, folder := range slices.Sorted(maps.Keys(l.drivers)) {
		d := l.drivers[folder]
		for _, f := range slices.Sorted(slices.Values(d.content.Flavours)) {
			a, err := l.assemble(d, f)
			assemblies, errs = append(assemblies, a), append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := check(assemblies); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, a := range assemblies {
		installed, err := l.install(a, assemblies)
		addTo(files, path.Join(a.folder(), bundle.Folder(a.flavour)), installed)
		errs = append(errs, err, a.addBundles(files))
	}
	addons, err := csiAddonsBundles(assets)
	addTo(files, csiAddonsGenerated, addons)
	boards, boardErr := dashboards(assets)
	addTo(files, dashboardGenerated, boards)
	return files, errors.Join(append(errs, err, boardErr)...)
}

func addTo(files map[string][]byte, folder string, added map[string][]byte) {
	for name, text := range added {
		files[path.Join(folder, name)] = text
	}
}

const generatedHeader = "# Generated; do not edit, run `make update`.\n"

func addYAML(files map[string][]byte, name string, object any) error {
	text, err := yaml.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	files[name] = append([]byte(generatedHeader), text...)
	return nil
}

func (a *assembly) addBundles(files map[string][]byte) error {
	bundles := map[string]map[string]*asset{bundle.Folder(a.flavour): a.assets}
	if a.withCSIAddons != nil {
		bundles[bundle.CSIAddonsFolder(a.flavour)] = a.csiAddonsAssets()
	}
	for folder, assets := range bundles {
		b, err := a.bundle(assets)
		if err != nil {
			return err
		}
		made, err := b.Files()
		if err != nil {
			return err
		}
		addTo(files, path.Join(a.folder(), folder), made)
	}
	return nil
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

// bundle returns the bundle of assets, in the order to apply them. A workload that differs from
// that of the assembly becomes a patch.
func (a *assembly) bundle(assets map[string]*asset) (*bundle.Bundle, error) {
	bundled := make([]bundle.Asset, 0, len(assets))
	for _, asset := range slices.SortedFunc(maps.Values(assets), applyOrder) {
		saved := *asset
		if own := a.assets[asset.Name]; asset.isWorkload() && asset != own {
			var err error
			if saved.Data, err = patch.Between(own.Data, asset.Data, asset.object); err != nil {
				return nil, position.ErrorAt(asset.at, "%q: %w", asset.Name, err)
			}
		}
		saved.Data = saved.withHeader(a.driver.File)
		bundled = append(bundled, saved.Asset)
	}
	return bundle.New(bundled), nil
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
	if a.isWorkload() {
		return len(order) + 1
	}
	return len(order)
}

// Update writes the generated files of the assets folder root: below drivers/<driver>/generated,
// csi-addons/generated, monitoring/kubernetes/generated and helm/generated. It removes all other
// files there. If there is an error in the layers, it writes nothing.
func Update(root string) error {
	files, err := Generate(os.DirFS(root))
	if err != nil {
		return err
	}
	outputs := []string{"drivers/*/generated", csiAddonsGenerated, dashboardGenerated}
	if err := replaceFiles(root, files, outputs...); err != nil {
		return err
	}
	files, err = chart(os.DirFS(root)) // it contains the manifests of the operators
	if err != nil {
		return err
	}
	return replaceFiles(root, files, chartGenerated)
}

// replaceFiles writes files, and removes all others in the folders of the output.
func replaceFiles(root string, files map[string][]byte, outputs ...string) error {
	for _, output := range outputs {
		folders, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(output)))
		errs := []error{err}
		for _, folder := range folders {
			errs = append(errs, os.RemoveAll(folder))
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("removing former output: %w", err)
		}
	}
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("creating folder of output: %w", err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return fmt.Errorf("writing output: %w", err)
		}
	}
	return nil
}
