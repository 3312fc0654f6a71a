// Package legacy contains the types of the conditions and the objects that operators of earlier
// releases leave in a cluster. pkg/operator removes the conditions and RBAC objects that no
// operator owns any more. The tests of upgrades create all objects of a generation.
package legacy

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// folders contains a folder for each generation: conditions.yaml, and objects/<flavour>/<side>/
// with one file for each object.
//
//go:embed cinder-* manila-*
var folders embed.FS

// controlPlaneNamespace is the text in the files that stands for the namespace of a hosted control
// plane. All other namespaces are the same in each cluster.
const controlPlaneNamespace = "${NAMESPACE}"

// Generation describes what an earlier operator leaves in a cluster. Releases that leave the same
// objects are one generation.
type Generation struct {
	// Name contains the driver and the last release, such as manila-4.17.
	Name       string
	Conditions Conditions
	Objects    []Object
}

// Conditions are the types of the conditions that a generation writes.
type Conditions struct {
	// Kept are the types that the operator of this release writes as well.
	Kept []string `json:"kept"`
	// Stale are the types that no controller writes any more.
	Stale []string `json:"stale"`
}

// Object is an object of a generation.
type Object struct {
	*unstructured.Unstructured

	Side flavour.Side
}

// description is the content of conditions.yaml.
type description struct {
	// Driver is the name of the ClusterCSIDriver.
	Driver string `json:"driver"`
	// Conditions contains the flavours in which the generation existed.
	Conditions map[flavour.Flavour]Conditions `json:"conditions"`
}

// Generations returns the earlier generations of the operator of a ClusterCSIDriver in a flavour,
// the oldest first. namespace is the namespace of the driver's controllers. An error names the file
// that is malformed.
func Generations(driver string, f flavour.Flavour, namespace string) ([]Generation, error) {
	entries, err := folders.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("listing the generations: %w", err)
	}
	var generations []Generation
	for _, entry := range entries {
		file := path.Join(entry.Name(), "conditions.yaml")
		text, err := folders.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a generation: %w", err)
		}
		var found description
		if err := yaml.UnmarshalStrict(text, &found); err != nil {
			return nil, fmt.Errorf("decoding %q: %w", file, err)
		}
		conditions, ok := found.Conditions[f]
		if !ok || found.Driver != driver {
			continue
		}
		objects, err := load(path.Join(entry.Name(), "objects", string(f)), namespace)
		if err != nil {
			return nil, err
		}
		generations = append(generations, Generation{entry.Name(), conditions, objects})
	}
	return generations, nil
}

// load returns the objects in a folder.
func load(folder, namespace string) ([]Object, error) {
	var objects []Object
	for _, side := range flavour.Sides() {
		files, err := fs.Glob(folders, path.Join(folder, string(side), "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("listing the objects in %q: %w", folder, err)
		}
		for _, file := range files {
			text, err := folders.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("reading an object: %w", err)
			}
			filled := strings.ReplaceAll(string(text), controlPlaneNamespace, namespace)
			object := Object{&unstructured.Unstructured{}, side}
			if err := yaml.UnmarshalStrict([]byte(filled), &object.Object); err != nil {
				return nil, fmt.Errorf("decoding %q: %w", file, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}
