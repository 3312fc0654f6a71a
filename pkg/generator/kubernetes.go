package generator

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// kubernetesFolder contains the kustomization for clusters that are not OpenShift, beside the
// manifests that it changes.
const kubernetesFolder = "kubernetes"

// kubernetesOverlay returns the files of the kustomization, or none if the base does not describe
// it. The kustomization adds objects that OpenShift contains, patches the operator's manifests, and
// leaves out the CredentialsRequests.
func (i *installation) kubernetesOverlay() (map[string][]byte, error) {
	layer := i.base.content.Kubernetes
	if i.flavour != flavour.Standalone || len(layer.Add) == 0 {
		return nil, nil
	}
	added := &assembly{
		layers: i.layers, driver: i.driver, flavour: i.flavour, values: i.values,
		assets: map[string]*asset{},
	}
	var errs []error
	for n, file := range layer.Add {
		errs = append(errs, added.add(i.base.source(kubernetesPart, "add").index(n), file, i.values))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	kustomization, err := i.kubernetesKustomization(layer.Patches)
	if err != nil {
		return nil, err
	}
	files, names := map[string][]byte{}, []string{"../" + installPart}
	for _, asset := range slices.SortedFunc(maps.Values(added.assets), applyOrder) {
		if i.isUnboundRole(asset, added) {
			continue
		}
		files[path.Join(kubernetesFolder, asset.Name)] = asset.withHeader(i.driver.File)
		names = append(names, asset.Name)
	}
	kustomization["resources"] = names
	text, err := yaml.Marshal(kustomization)
	if err != nil {
		return nil, fmt.Errorf("encoding kustomization: %w", err)
	}
	files[path.Join(kubernetesFolder, "kustomization.yaml")] = append([]byte(generatedHeader), text...)
	return files, nil
}

// kubernetesKustomization returns the kustomization without its resources.
func (i *installation) kubernetesKustomization(entries []patchEntry) (map[string]any, error) {
	var requests []*asset
	for _, asset := range i.sorted() {
		if _, ok := asset.object.(*credentialsRequest); ok {
			requests = append(requests, asset)
		}
	}
	kustomization := newKustomization()
	patches, err := deletions(requests)
	if err != nil {
		return nil, err
	}
	for n, entry := range entries {
		from := i.base.source(kubernetesPart, "patches").index(n)
		patch, err := i.kustomizePatch(from, entry)
		if err != nil {
			return nil, err
		}
		patches = append(patches, patch)
	}
	kustomization["patches"] = patches
	return kustomization, nil
}

// kustomizePatch returns a patch of one of the operator's manifests in the format of kustomize. A
// patch without an effect is an error.
func (i *installation) kustomizePatch(from source, entry patchEntry) (map[string]any, error) {
	target := i.assets[entry.Target]
	if target == nil {
		return nil, from.errorf("patch %q has no target: %s", entry.file(), i.missing(entry.Target))
	}
	object, err := meta.Accessor(target.object)
	if err != nil {
		return nil, position.ErrorAt(target.at, "%q is no object: %w", target.Name, err)
	}
	layer, err := i.read(from.beside(entry.file()), i.values)
	if err != nil {
		return nil, err
	}
	patched, err := entry.apply(target.Data, layer.Text, "")
	if err != nil {
		return nil, layer.Errorf("", "patching %q: %w", entry.Target, err)
	}
	if slices.Equal(patched, target.Data) {
		return nil, from.errorf("patch %q changes nothing in %q", entry.file(), entry.Target)
	}
	return map[string]any{
		"target": map[string]string{"kind": target.kind(), "name": object.GetName()},
		"patch":  string(layer.Text),
	}, nil
}

// isUnboundRole reports whether an asset is a ClusterRole that neither an operand nor another asset
// binds.
func (i *installation) isUnboundRole(role *asset, added *assembly) bool {
	object, ok := role.object.(*rbacv1.ClusterRole)
	if !ok {
		return false
	}
	for _, a := range append([]*assembly{added}, i.operands...) {
		for _, asset := range a.assets {
			binding, ok := asset.object.(*rbacv1.ClusterRoleBinding)
			if ok && binding.RoleRef.Name == object.Name {
				return false
			}
		}
	}
	return true
}
