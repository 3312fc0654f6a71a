package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// driverKind returns the kind of the objects with the choices of a kind.
func driverKind(kind choice.Kind) string {
	return strings.Replace(string(kind), "Config", "Driver", 1)
}

// addDefinition adds the CustomResourceDefinition for the choices of a kind.
func (g generator) addDefinition(root string, files map[string]string) error {
	kind := driverKind(g.kind)
	singular := strings.ToLower(kind)
	plural := singular + "s"
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definition, &crd.Object); err != nil {
		return err
	}
	crd.SetName(plural + ".csi.openstack.org")
	names := map[string]any{
		"kind": kind, "listKind": kind + "List", "plural": plural, "singular": singular,
	}
	if err := unstructured.SetNestedMap(crd.Object, names, "spec", "names"); err != nil {
		return err
	}
	driver, err := nameOfDriver(root, strings.TrimSuffix(singular, "driver"))
	if err != nil {
		return err
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return err
	}
	spec := g.object(reflect.TypeFor[api.Spec]())
	spec["description"] = "What the administrator chooses. Without a field, its default applies."
	top := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	top["properties"].(map[string]any)["spec"] = spec
	top["description"] = fmt.Sprintf("%s configures the operator of the CSI driver %s, and reports "+
		"how the driver is. There is one, with the name of the driver.", kind, driver)
	top["x-kubernetes-validations"] = []schema{{
		"rule": "self.metadata.name == '" + driver + "'", "message": "the name must be " + driver,
	}}
	crd.Object["spec"].(map[string]any)["versions"] = versions
	text, err := yaml.Marshal(crd.Object)
	files[filepath.Join("assets/crds/api", plural+".yaml")] = string(text)
	return err
}

// nameOfDriver returns the name of a CSI driver on Kubernetes, which its CSIDriver has.
func nameOfDriver(root, folder string) (string, error) {
	file := filepath.Join(root, "assets/drivers", folder, "generated/kubernetes/csidriver.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var object metav1.PartialObjectMetadata
	err = yaml.Unmarshal(text, &object)
	return object.Name, err
}
