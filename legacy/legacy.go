// Package legacy contains what operators of earlier releases leave in a cluster and no operator
// owns any more: types of conditions, RBAC objects and Services. pkg/operator removes them.
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

// folders contains a folder for each generation: conditions.yaml, and leftovers/<flavour>/<side>/
// with one file for each object.
//
//go:embed */conditions.yaml */leftovers
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
	// Leftovers are the objects that no operator owns any more.
	Leftovers []Object
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
		var found description
		if err := decode(folders, path.Join(entry.Name(), "conditions.yaml"), nil, &found); err != nil {
			return nil, err
		}
		conditions, ok := found.Conditions[f]
		if !ok || found.Driver != driver {
			continue
		}
		objects, err := Objects(folders, path.Join(entry.Name(), "leftovers", string(f)),
			controlPlaneNamespace, namespace)
		if err != nil {
			return nil, err
		}
		generations = append(generations, Generation{entry.Name(), conditions, objects})
	}
	return generations, nil
}

// Objects returns the objects in the files of a folder with a subfolder for each side. It replaces
// texts in the files as strings.NewReplacer does.
func Objects(files fs.FS, folder string, values ...string) ([]Object, error) {
	var objects []Object
	for _, side := range flavour.Sides() {
		names, err := fs.Glob(files, path.Join(folder, string(side), "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("listing the objects in %q: %w", folder, err)
		}
		for _, name := range names {
			object := &unstructured.Unstructured{}
			if err := decode(files, name, values, &object.Object); err != nil {
				return nil, err
			}
			objects = append(objects, Object{object, side})
		}
	}
	return objects, nil
}

// decode reads a file, fills in the values and decodes the result.
func decode(files fs.FS, name string, values []string, into any) error {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("reading a generation: %w", err)
	}
	replaced := strings.NewReplacer(values...).Replace(string(text))
	if err := yaml.UnmarshalStrict([]byte(replaced), into); err != nil {
		return fmt.Errorf("decoding %q: %w", name, err)
	}
	return nil
}
