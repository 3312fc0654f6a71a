package generator

import (
	"errors"
	"maps"
	"path"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// kubernetesFolder contains the kustomization for clusters that are not OpenShift, beside the
// manifests that it changes.
const kubernetesFolder = "kubernetes"

// addKubernetes adds the files of the kustomization, if the base describes it. It adds objects that
// OpenShift contains, patches the operator's manifests, and leaves out the CredentialsRequests. The
// prerequisites of OLM there are another kustomization.
func (i *installation) addKubernetes(files map[string][]byte) error {
	layer := i.base.content.Kubernetes
	if i.flavour != flavour.Standalone || len(layer.Add) == 0 {
		return nil
	}
	added := i.empty()
	var errs []error
	for n, file := range layer.Add {
		errs = append(errs, added.add(i.base.source(kubernetesPart, "add").index(n), file, i.values))
	}
	patches, err := deletions(slices.DeleteFunc(i.sorted(), func(a *asset) bool {
		return a.kind() != "CredentialsRequest"
	}))
	errs = append(errs, err)
	for n, entry := range layer.Patches {
		patch, err := i.kustomizePatch(i.base.source(kubernetesPart, "patches").index(n), entry)
		patches, errs = append(patches, patch), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	names := []string{"../" + installPart}
	for _, asset := range slices.SortedFunc(maps.Values(added.assets), applyOrder) {
		unbound := asset.kind() == "ClusterRole" &&
			!isBound(asset.object.GetName(), append(i.operands, added)...)
		if unbound {
			continue
		}
		files[path.Join(kubernetesFolder, asset.Name)] = asset.withHeader(i.driver.File)
		names = append(names, asset.Name)
	}
	file := path.Join(kubernetesFolder, kustomizationFile)
	return errors.Join(
		addYAML(files, file, newKustomization(patches, names...)),
		i.addPrerequisites(files, olmKubernetes, "../../"+kubernetesFolder))
}

// kustomizePatch returns a patch of one of the operator's manifests in the format of kustomize,
// after it has tried the patch.
func (i *installation) kustomizePatch(from source, entry patchEntry) (map[string]any, error) {
	target, err := i.tryPatch(from, entry)
	if err != nil {
		return nil, err
	}
	text := target.layers[len(target.layers)-1].Text
	return map[string]any{
		"target": map[string]string{"kind": target.kind(), "name": target.object.GetName()},
		"patch":  string(text),
	}, nil
}

// tryPatch returns the changed copy of the target of a patch.
func (i *installation) tryPatch(from source, entry patchEntry) (*asset, error) {
	tried := i.empty()
	for name, target := range i.assets {
		copied := *target
		tried.assets[name] = &copied
	}
	err := tried.patch(from, entry, i.values)
	return tried.assets[entry.Target], err
}

// onKubernetes returns the Deployment of the operator as clusters that are not OpenShift need it.
func (i *installation) onKubernetes(deployment *asset) (*asset, error) {
	for n, entry := range i.base.content.Kubernetes.Patches {
		if entry.Target == deployment.Name {
			return i.tryPatch(i.base.source(kubernetesPart, "patches").index(n), entry)
		}
	}
	return deployment, nil
}

// isBound reports whether a ClusterRoleBinding binds a ClusterRole.
func isBound(role string, assemblies ...*assembly) bool {
	for _, a := range assemblies {
		for _, asset := range a.assets {
			binding, ok := asset.object.(*rbacv1.ClusterRoleBinding)
			if ok && binding.RoleRef.Name == role {
				return true
			}
		}
	}
	return false
}
