// Package generations contains all objects that operators of earlier releases leave in a cluster,
// for the tests of upgrades.
package generations

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
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// folders contains a folder for each generation with objects/<flavour>/<side>/, one file for each
// object that is no leftover. Instead of these, a generation can have base.yaml, which names
// another generation, and patches/<side>/ with strategic merge patches of the objects of this one.
//
//go:embed cinder-* manila-*
var folders embed.FS

// Generation describes what an earlier operator leaves in a cluster.
type Generation struct {
	legacy.Generation

	// Objects are all objects, with the leftovers.
	Objects []legacy.Object
}

// Of returns the earlier generations of the operator of a ClusterCSIDriver in a flavour, the oldest
// first. namespace is the namespace of the driver's controllers.
func Of(driver string, f flavour.Flavour, namespace string) ([]Generation, error) {
	entries, err := folders.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var generations []Generation
	for _, entry := range entries {
		name := entry.Name()
		base, err := baseOf(name)
		if err != nil {
			return nil, err
		}
		all, err := legacy.Generations(driver, f, namespace)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(g legacy.Generation) bool { return g.Name == base })
		if i < 0 {
			continue // of another driver or flavour
		}
		objects, err := load(name, base, f, namespace)
		if err != nil {
			return nil, err
		}
		all[i].Name = name
		generations = append(generations, Generation{all[i], append(objects, all[i].Leftovers...)})
	}
	return generations, nil
}

// baseOf returns the generation that contains the objects of a generation: its base, or itself.
func baseOf(name string) (string, error) {
	var content struct {
		Base string `json:"base"`
	}
	text, err := folders.ReadFile(path.Join(name, "base.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return name, nil
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, &content)
	}
	return content.Base, err
}

func load(name, base string, f flavour.Flavour, namespace string) ([]legacy.Object, error) {
	_, release, _ := strings.Cut(name, "-")
	values := []string{"${NAMESPACE}", namespace, "${RELEASE}", release}
	objects, errObjects := legacy.Objects(folders, path.Join(base, "objects", string(f)), values...)
	patches, errPatches := legacy.Objects(folders, path.Join(name, "patches"), values...)
	if err := cmp.Or(errObjects, errPatches); err != nil {
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
func patch(objects []legacy.Object, p legacy.Object) error {
	schema := map[string]any{
		"DaemonSet": appsv1.DaemonSet{}, "Deployment": appsv1.Deployment{}, "Secret": corev1.Secret{},
	}[p.GetKind()]
	i := slices.IndexFunc(objects, func(o legacy.Object) bool {
		return o.GetKind() == p.GetKind() && o.GetName() == p.GetName()
	})
	if i < 0 || schema == nil {
		return errors.New("there is no such workload or Secret")
	}
	patched, err := strategicpatch.StrategicMergeMapPatch(objects[i].Object, p.Object, schema)
	objects[i].Object = patched
	return err
}
