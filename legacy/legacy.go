// Package legacy contains the types of the conditions and the objects that operators of earlier
// releases leave in a cluster. pkg/operator removes the conditions, RBAC objects and Services that
// no operator owns any more. The tests of upgrades create all objects of a generation.
package legacy

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// folders contains a folder for each generation: conditions.yaml, and objects/<flavour>/<side>/
// with one file for each object. Instead of objects, a generation can have patches/ with strategic
// merge patches of the objects of another generation.
//
//go:embed cinder-* manila-*
var folders embed.FS

const (
	// controlPlaneNamespace is the text in the files that stands for the namespace of a hosted
	// control plane. All other namespaces are the same in each cluster.
	controlPlaneNamespace = "${NAMESPACE}"
	// release is the text in the files that stands for the last release of the generation.
	release = "${RELEASE}"
)

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
	// Base is the generation whose driver, conditions and objects this generation shares, except for
	// patches. It is "" if the generation shares none.
	Base string `json:"base"`
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
		found, err := describe(entry.Name())
		if err != nil {
			return nil, err
		}
		conditions, ok := found.Conditions[f]
		if !ok || found.Driver != driver {
			continue
		}
		objects, err := load(entry.Name(), found.Base, f, namespace)
		if err != nil {
			return nil, err
		}
		generations = append(generations, Generation{entry.Name(), conditions, objects})
	}
	return generations, nil
}

// describe returns the description of a generation, or that of its base.
func describe(name string) (description, error) {
	var found description
	if err := decode(path.Join(name, "conditions.yaml"), strings.NewReplacer(), &found); err != nil {
		return description{}, err
	}
	if found.Base == "" {
		return found, nil
	}
	base, err := describe(found.Base)
	base.Base = found.Base
	return base, err
}

// load returns the objects of a generation: its own, or those of the base with its patches.
func load(name, base string, f flavour.Flavour, namespace string) ([]Object, error) {
	_, last, _ := strings.Cut(name, "-")
	values := strings.NewReplacer(controlPlaneNamespace, namespace, release, last)
	var objects []Object
	for _, side := range flavour.Sides() {
		found, err := read(path.Join(cmp.Or(base, name), "objects", string(f), string(side)), values)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			objects = append(objects, Object{object, side})
		}
	}
	patches, err := read(path.Join(name, "patches"), values)
	if err != nil {
		return nil, err
	}
	for _, p := range patches {
		if err := patch(objects, p); err != nil {
			return nil, fmt.Errorf("patching %s %q of %q: %w", p.GetKind(), p.GetName(), base, err)
		}
	}
	return objects, nil
}

// patch applies a strategic merge patch to the object with the same kind and name.
func patch(objects []Object, p *unstructured.Unstructured) error {
	schema := map[string]any{
		"DaemonSet": appsv1.DaemonSet{}, "Deployment": appsv1.Deployment{}, "Secret": corev1.Secret{},
	}[p.GetKind()]
	i := slices.IndexFunc(objects, func(o Object) bool {
		return o.GetKind() == p.GetKind() && o.GetName() == p.GetName()
	})
	if i < 0 || schema == nil {
		return errors.New("there is no such workload or Secret")
	}
	patched, err := strategicpatch.StrategicMergeMapPatch(objects[i].Object, p.Object, schema)
	objects[i].Object = patched
	return err
}

// read returns the objects in the files of a folder.
func read(folder string, values *strings.Replacer) ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(folders, path.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the objects in %q: %w", folder, err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		object := &unstructured.Unstructured{}
		if err := decode(file, values, &object.Object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// decode reads a file, fills in the values and decodes the result.
func decode(file string, values *strings.Replacer, into any) error {
	text, err := folders.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading a generation: %w", err)
	}
	if err := yaml.UnmarshalStrict([]byte(values.Replace(string(text))), into); err != nil {
		return fmt.Errorf("decoding %q: %w", file, err)
	}
	return nil
}
