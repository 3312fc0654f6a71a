package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// driver is the part of a driver.yaml that names the object of the operator.
type driver struct {
	Name  string `json:"name"`
	Names []struct {
		Name string            `json:"name"`
		Only []flavour.Flavour `json:"only"`
	} `json:"names"`
	Operator struct {
		Kind string `json:"kind"`
	} `json:"operator"`
}

// addDefinitions adds the CustomResourceDefinition of each driver, and their kustomization.
func (g generator) addDefinitions(root string, files map[string]string) error {
	found, err := filepath.Glob(filepath.Join(root, "assets/drivers/*/driver.yaml"))
	if err != nil {
		return err
	}
	list := "# The CustomResourceDefinitions that operators need outside OpenShift.\n" +
		"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
	for _, file := range found {
		var d driver
		text, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, &d)
		}
		if err != nil {
			return err
		}
		if d.Operator.Kind == "" { // a companion
			continue
		}
		name := "generated/" + strings.ToLower(d.Operator.Kind) + "s.yaml"
		if files["assets/crds/"+name], err = g.definition(d); err != nil {
			return err
		}
		list += "- " + name + "\n"
	}
	files["assets/crds/kustomization.yaml"] = list
	return nil
}

// definition returns the CustomResourceDefinition of a driver.
func (g generator) definition(d driver) (string, error) {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definition, &crd.Object); err != nil {
		return "", err
	}
	kind := d.Operator.Kind
	singular := strings.ToLower(kind)
	crd.SetName(singular + "s.csi.openstack.org")
	crd.SetAnnotations(map[string]string{api.RevisionAnnotation: strconv.Itoa(api.Revision)})
	content := crd.Object["spec"].(map[string]any)
	content["names"] = map[string]any{
		"kind": kind, "listKind": kind + "List", "plural": singular + "s", "singular": singular,
	}
	name := d.Name
	for _, other := range d.Names {
		if slices.Contains(other.Only, flavour.Kubernetes) {
			name = other.Name
		}
	}
	// Only these two have choices.
	of := g
	of.kind = choice.Kind(strings.Replace(kind, "Driver", "Config", 1))
	fields := reflect.TypeFor[api.Operator]()
	if of.kind == choice.Manila || of.kind == choice.Cinder {
		fields = reflect.TypeFor[api.Spec]()
	}
	spec := of.object(fields)
	spec["description"] = "What the administrator chooses. Without a field, its default applies."
	version := content["versions"].([]any)[0].(map[string]any)
	top := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	top["properties"].(map[string]any)["spec"] = spec
	top["description"] = fmt.Sprintf("%s configures the operator of the CSI driver %s, and reports "+
		"how the driver is. There is one, with the name of the driver.", kind, name)
	top["x-kubernetes-validations"] = []schema{{
		"rule": "self.metadata.name == '" + name + "'", "message": "the name must be " + name,
	}}
	text, err := yaml.Marshal(crd.Object)
	return "---\n" + string(text), err // Helm 3 shows all definitions without anything between them
}
