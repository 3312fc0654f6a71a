package generator

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// The output for OLM, beside the manifests that install the operator without OLM.
const (
	olmFolder        = "olm"
	olmManifests     = olmFolder + "/manifests"
	olmMetadata      = olmFolder + "/metadata/annotations.yaml"
	olmPrerequisites = olmFolder + "/prerequisites"
)

const serviceVersionKind = "ClusterServiceVersion"

// serviceVersion returns the description of the operator for OLM, or nil if no layer adds one.
func (i *installation) serviceVersion() *asset { return i.find(serviceVersionKind, "") }

func specField(version *asset, name string) string {
	object, _ := version.object.(*unstructured.Unstructured)
	text, _, _ := unstructured.NestedString(object.Object, "spec", name)
	return text
}

// completeServiceVersion adds the Deployment, the permissions that OLM can grant, and the images.
func (i *installation) completeServiceVersion() error {
	target := i.serviceVersion()
	if target == nil {
		return nil
	}
	deployment := i.deployment()
	if deployment == nil {
		return position.ErrorAt(target.at, "%q needs the operator's Deployment in this flavour",
			target.Name)
	}
	name := i.part.Name + ".v" + specField(target, "version")
	entry := map[string]any{"name": deployment.object.GetName()}
	errs := []error{i.leaveOutOpenShift(target)}
	if labels := deployment.object.GetLabels(); !i.flavour.OpenShift() && len(labels) > 0 {
		entry["label"] = labels
	}
	errs = append(errs,
		i.appendTo(target, target.layers[0], "/metadata/name", name),
		i.appendTo(target, deployment.layers[0], "/spec/relatedImages", relatedImages(deployment)),
		i.extract(deployment, "spec", target, "deployments", entry))
	account := map[string]any{"serviceAccountName": podTemplate(deployment).Spec.ServiceAccountName}
	lists := map[string]string{"ClusterRole": "clusterPermissions", "Role": "permissions"}
	for _, role := range i.sorted() {
		if list := lists[role.kind()]; list != "" && i.inServiceVersion(role) {
			errs = append(errs, i.extract(role, "rules", target, list, account))
		}
	}
	return errors.Join(errs...)
}

// leaveOutOpenShift removes annotations for the console of OpenShift, in other clusters.
func (i *installation) leaveOutOpenShift(target *asset) error {
	removed := map[string]any{}
	for key := range target.object.GetAnnotations() {
		if !i.flavour.OpenShift() && strings.Contains(key, ".openshift.io/") {
			removed[key] = nil
		}
	}
	if len(removed) == 0 {
		return nil
	}
	return i.setMetadata(target, target.layers[0], "annotations", removed)
}

// extract appends an entry to a list of the ClusterServiceVersion: a field of an object, and the
// fields in entry.
func (i *installation) extract(
	from *asset, field string, target *asset, list string, entry map[string]any,
) error {
	var object map[string]any
	if err := yaml.Unmarshal(from.Data, &object); err != nil {
		return position.ErrorAt(from.at, "decoding %q: %w", from.Name, err)
	}
	entry = maps.Clone(entry)
	entry[field] = object[field]
	return i.appendTo(target, from.layers[0], "/spec/install/spec/"+list+"/-", entry)
}

// relatedImages returns the images of operator and operands, for tools that copy them elsewhere.
func relatedImages(deployment *asset) []any {
	var images []any
	for _, container := range podTemplate(deployment).Spec.Containers {
		images = append(images, map[string]any{"name": container.Name, "image": container.Image})
		for _, variable := range container.Env {
			if name, isImage := strings.CutSuffix(variable.Name, "_IMAGE"); isImage {
				name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
				images = append(images, map[string]any{"name": name, "image": variable.Value})
			}
		}
	}
	return images
}

// inServiceVersion returns whether OLM creates an object from the ClusterServiceVersion.
func (i *installation) inServiceVersion(a *asset) bool {
	switch a.kind() {
	case "ClusterRoleBinding":
		return true
	case "ClusterRole":
		return i.isBound(a.object.GetName())
	case "ServiceAccount":
		account := podTemplate(i.deployment()).Spec.ServiceAccountName
		return i.besideOperator(a) && a.object.GetName() == account
	case "Deployment", "Role", "RoleBinding":
		return i.besideOperator(a)
	}
	return false
}

// inManifests returns whether OLM creates an object from its manifest in the bundle. OLM supports
// few kinds, and creates all of them in the namespace of the operator. NetworkPolicies need an OLM
// that old releases of OpenShift do not have.
func (i *installation) inManifests(a *asset) bool {
	switch a.kind() {
	case "ConfigMap", "Service":
		return i.besideOperator(a)
	case "NetworkPolicy":
		return i.besideOperator(a) && !i.flavour.OpenShift()
	case "ClusterRole": // for users of the kind
		return i.part.Kind != "" && !i.flavour.OpenShift() && !i.inServiceVersion(a)
	}
	return false
}

func (i *installation) besideOperator(a *asset) bool {
	return a.object.GetNamespace() == i.deployment().object.GetNamespace()
}

// addOLM adds the files of the OLM bundle, if a layer describes the operator for OLM. complete is
// the path from the prerequisites to the kustomization that installs the operator without OLM.
func (i *installation) addOLM(files map[string][]byte, complete string) error {
	version := i.serviceVersion()
	if version == nil {
		return nil
	}
	for _, asset := range i.sorted() {
		if asset == version || i.inManifests(asset) {
			files[path.Join(olmManifests, asset.Name)] = asset.withHeader(i.driver.File)
		}
	}
	annotations := i.olmAnnotations(specField(version, "maturity"))
	files[path.Join(olmFolder, "bundle.Dockerfile")] = olmDockerfile(annotations)
	return errors.Join(
		i.addOwned(files),
		addYAML(files, olmMetadata, map[string]any{"annotations": annotations}),
		i.addPrerequisites(files, complete))
}

// addOwned adds the CustomResourceDefinition of the object that configures the operator, if it is
// no kind of OpenShift.
func (i *installation) addOwned(files map[string][]byte) error {
	if i.flavour.OpenShift() || i.part.Kind == "" {
		return nil
	}
	name := i.values["operator.resource"] + ".yaml"
	text, err := fs.ReadFile(i.fsys, path.Join("crds/generated", name))
	files[path.Join(olmManifests, name)] = text
	return err
}

// addPrerequisites adds a kustomization of the objects that OLM cannot create, if there are any.
func (i *installation) addPrerequisites(files map[string][]byte, complete string) error {
	byOLM := slices.DeleteFunc(i.sorted(), func(a *asset) bool {
		// The CustomResourceDefinition of the object is in the bundle.
		own := !i.flavour.OpenShift() && a.kind() == i.part.Kind
		return !i.inServiceVersion(a) && !i.inManifests(a) && !own
	})
	if len(byOLM) == len(i.assets)-1 { // without the ClusterServiceVersion
		return nil
	}
	patches, err := deletions(byOLM)
	file := path.Join(olmPrerequisites, kustomizationFile)
	return errors.Join(err, addYAML(files, file, newKustomization(patches, complete)))
}

// isBound reports whether a ClusterRoleBinding binds a ClusterRole.
func (i *installation) isBound(role string) bool {
	for _, asset := range i.assets {
		binding, ok := asset.object.(*rbacv1.ClusterRoleBinding)
		if ok && binding.RoleRef.Name == role {
			return true
		}
	}
	return false
}

// olmAnnotations describe a bundle for OLM. The channel has the name of the maturity.
func (i *installation) olmAnnotations(channel string) map[string]string {
	annotations := map[string]string{}
	for name, value := range map[string]string{
		"mediatype":       "registry+v1",
		"manifests":       "manifests/",
		"metadata":        "metadata/",
		"package":         i.part.Name,
		"channels":        channel,
		"channel.default": channel,
	} {
		annotations["operators.operatorframework.io.bundle."+name+".v1"] = value
	}
	return annotations
}

// olmDockerfile returns the Dockerfile of a bundle; the folder of the bundle is its context.
func olmDockerfile(labels map[string]string) []byte {
	text := generatedHeader + "FROM scratch\n"
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		text += fmt.Sprintf("LABEL %s=%s\n", label, labels[label])
	}
	return []byte(text + "COPY manifests /manifests/\nCOPY metadata /metadata/\n")
}

// deletions returns the patches with which kustomize leaves out objects.
func deletions(omitted []*asset) ([]map[string]any, error) {
	patches := make([]map[string]any, 0, len(omitted))
	for _, asset := range omitted {
		version, kind := asset.object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		name := map[string]any{"name": asset.object.GetName()}
		if namespace := asset.object.GetNamespace(); namespace != "" {
			name["namespace"] = namespace
		}
		text, err := yaml.Marshal(map[string]any{
			"$patch": "delete", "apiVersion": version, "kind": kind, "metadata": name,
		})
		if err != nil {
			return nil, position.ErrorAt(asset.at, "encoding the patch of %q: %w", asset.Name, err)
		}
		patches = append(patches, map[string]any{"patch": string(text)})
	}
	return patches, nil
}
