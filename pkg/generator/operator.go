package generator

import (
	"cmp"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// hostedNamespace stands for the namespace of a hosted control plane in the manifests of operators.
// A provider replaces it.
const hostedNamespace = "clusters-example"

// kubernetesNamespace is the namespace in the manifests for Kubernetes. The chart replaces it.
const kubernetesNamespace = "openstack-csi"

// installation makes the manifests that install the operator of a leading driver.
type installation struct {
	*assembly
	part *operatorPart
	// operands are the assemblies of the leading driver and its companions.
	operands []*assembly
}

// install returns the manifests of a leading driver's operator, by their paths in the folder of the
// flavour, or none if driver.yaml does not describe it.
func (l *layers) install(leader *assembly, all []*assembly) (map[string][]byte, error) {
	part := leader.driver.content.Operator
	if part == nil {
		return nil, nil
	}
	i := &installation{part: part, assembly: leader.empty()}
	folder := path.Base(leader.folder())
	for _, a := range all {
		if a == leader || a.flavour == leader.flavour && a.driver.content.CompanionOf == folder {
			i.operands = append(i.operands, a)
		}
	}
	i.addValues()
	for _, step := range []func() error{
		func() error { return i.addFiles(installPart, part.changes) },
		func() error { return i.applyFlavour(installPart, part.changes) },
		func() error { return i.applyPatches(installPart, part.changes) },
		i.applyToEach, i.addImages, i.addGrants, i.completeServiceVersion,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return i.manifests()
}

func (a *assembly) folder() string { return path.Dir(a.driver.File) }

func (i *installation) namespaces() flavour.Namespaces {
	operator := flavour.DefaultNamespace
	switch {
	case i.flavour.Hosted():
		operator = hostedNamespace
	case !i.flavour.OpenShift():
		operator = kubernetesNamespace
	}
	return i.flavour.Namespaces(operator, i.part.Namespace)
}

// addValues adds the values of two kinds of placeholders: those that only manifests of operators
// contain, and those that the operator replaces in operands.
func (i *installation) addValues() {
	n := i.namespaces()
	maps.Copy(i.values, map[string]string{
		"operator.name":          i.part.Name,
		"operator.component":     cmp.Or(i.part.Component, i.part.Name),
		"operator.image":         i.part.Image,
		"operator.kind":          i.part.Kind,
		"operator.resource":      strings.ToLower(i.part.Kind) + "s",
		"operator.credentials":   cmp.Or(i.values["credentials"], i.part.Credentials),
		"operator.namespace":     n.Operator,
		"operator.userConfig":    n.UserConfig,
		"operator.cloudConfig":   n.CloudConfig,
		bundle.Namespace:         n.ControlPlane,
		bundle.NodeNamespace:     n.Guest,
		bundle.OperatorNamespace: n.Operator,
	})
}

// addImages adds an environment variable for each image that the assets of the drivers need.
func (i *installation) addImages() error {
	workload := i.deployment()
	if workload == nil {
		return nil
	}
	bundles := make([]*bundle.Bundle, 0, len(i.operands))
	for _, a := range i.operands {
		b, err := a.bundle(a.assets)
		if err != nil {
			return err
		}
		bundles = append(bundles, b)
	}
	base := i.base.content.Operator.Images
	for _, variables := range bundle.AllImageVariables(i.flavour, bundles) {
		// The last variable is the fallback. It has the name of the placeholder.
		name := variables[len(variables)-1]
		layer, image := i.driver.document, i.part.Images[name]
		if image == "" {
			layer, image = i.base.document, base[name]
		}
		if image == "" {
			return i.driver.source(installPart, "images").errorf(
				"no image for ${%s}: add it to operator.images", name)
		}
		variable := map[string]any{"name": variables[0], "value": image}
		pointer := "/spec/template/spec/containers/0/env/-"
		if err := i.appendTo(workload, layer, pointer, variable); err != nil {
			return err
		}
	}
	return nil
}

// deployment returns the operator's Deployment, or nil if the base has none.
func (i *installation) deployment() *asset {
	return i.find("Deployment", "")
}

// sorted returns the objects in the order to apply them.
func (i *installation) sorted() []*asset {
	return slices.SortedFunc(maps.Values(i.assets), applyOrder)
}

// manifests returns the files: a folder for each cluster, with a kustomization, and the OLM bundle.
func (i *installation) manifests() (map[string][]byte, error) {
	files := map[string][]byte{}
	errs := []error{i.addOLM(files, "../../"+installPart)}
	resources := map[string][]string{}
	for _, asset := range i.sorted() {
		if asset.kind() == serviceVersionKind {
			continue
		}
		folder := i.installFolder(asset.Side)
		files[path.Join(folder, asset.Name)] = asset.withHeader(i.driver.File)
		resources[folder] = append(resources[folder], asset.Name)
	}
	for folder, names := range resources {
		file := path.Join(folder, kustomizationFile)
		errs = append(errs, addYAML(files, file, newKustomization(nil, names...)))
	}
	return files, errors.Join(errs...)
}

const kustomizationFile = "kustomization.yaml"

func newKustomization(patches []map[string]any, resources ...string) map[string]any {
	made := map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources,
	}
	if patches != nil {
		made["patches"] = patches
	}
	return made
}

// installFolder returns the folder of the manifests for a side. Unless hosted, both are one.
func (i *installation) installFolder(side flavour.Side) string {
	if !i.flavour.Hosted() {
		return installPart
	}
	return path.Join(installPart, map[flavour.Side]string{
		flavour.ControlPlane: "control-plane", flavour.Guest: "guest",
	}[side])
}
