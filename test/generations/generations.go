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

	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// folders contains a folder for each generation: objects/<flavour>/<side>/ with one file for each
// object that is no leftover, and patches/<flavour>/<side>/ with strategic merge patches of the
// objects that base.yaml takes from another generation. What is the same in each flavour is in
// folders of the flavour "both".
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
		i := slices.IndexFunc(all, func(g legacy.Generation) bool { return g.Name == name })
		if i < 0 { // the leftovers are those of the base
			i = slices.IndexFunc(all, func(g legacy.Generation) bool { return g.Name == base })
		}
		if i < 0 {
			continue // of another driver or flavour
		}
		_, release, _ := strings.Cut(name, "-")
		objects, err := load(name, f, "${NAMESPACE}", namespace, "${RELEASE}", release)
		if err != nil {
			return nil, err
		}
		all[i].Name = name
		generations = append(generations, Generation{all[i], append(objects, all[i].Leftovers...)})
	}
	return generations, nil
}

// baseOf returns the generation on whose objects a generation is based, or an empty text.
func baseOf(name string) (string, error) {
	var content struct {
		Base string `json:"base"`
	}
	text, err := folders.ReadFile(path.Join(name, "base.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, &content)
	}
	return content.Base, err
}

// load returns the objects of a generation in a flavour that are no leftovers.
func load(name string, f flavour.Flavour, values ...string) ([]legacy.Object, error) {
	base, err := baseOf(name)
	if err != nil {
		return nil, err
	}
	var objects []legacy.Object
	if base != "" {
		if objects, err = load(base, f, values...); err != nil {
			return nil, err
		}
	}
	for _, layer := range []string{"both", string(f)} {
		added, errAdded := legacy.Objects(folders, path.Join(name, "objects", layer), values...)
		patches, errPatches := legacy.Objects(folders, path.Join(name, "patches", layer), values...)
		if err := cmp.Or(errAdded, errPatches); err != nil {
			return nil, err
		}
		objects = append(objects, added...)
		for _, p := range patches {
			if err := patch(objects, p); err != nil {
				return nil, fmt.Errorf("patching %s %q of %q: %w", p.GetKind(), p.GetName(), name, err)
			}
		}
	}
	return objects, nil
}

// patch applies a strategic merge patch to the object with the same kind and name on its side.
func patch(objects []legacy.Object, p legacy.Object) error {
	i := slices.IndexFunc(objects, func(o legacy.Object) bool {
		return o.Side == p.Side && o.GetKind() == p.GetKind() && o.GetName() == p.GetName()
	})
	if i < 0 {
		return errors.New("there is no such object")
	}
	schema, err := scheme.Scheme.New(p.GroupVersionKind())
	if err != nil {
		return err
	}
	objects[i].Object, err = strategicpatch.StrategicMergeMapPatch(objects[i].Object, p.Object, schema)
	return err
}
