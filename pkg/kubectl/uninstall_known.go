package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/openstack-csi/csi-operator/assets"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
)

// manifestsIn returns the objects of an installation in files that match a pattern. What is no role
// has no rules.
func manifestsIn(pattern string) (all []rbacv1.ClusterRole, _ error) {
	files, err := fs.Glob(assets.Installations(), pattern)
	for _, file := range files {
		text, failed := fs.ReadFile(assets.Installations(), file)
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
		for failed == nil {
			var one rbacv1.ClusterRole
			if failed = documents.Decode(&one); failed == nil && one.Name != "" { // no Kustomization
				all = append(all, one)
			}
		}
		if !errors.Is(failed, io.EOF) {
			err = errors.Join(err, failed)
		}
	}
	return all, err
}

// readsSecret starts the names of the roles that the chart makes for a value.
const readsSecret = "manila-csi-driver-reads-"

// learn remembers what belongs to the installation: what its files contain, what its operators may
// change by name, its Leases, and the StorageClasses that operators create.
func (u *uninstallation) learn(ctx context.Context) error {
	u.known = map[string]string{}
	for _, pattern := range []string{
		"crds/generated/*", "csi-addons/controller/*", "csi-addons/install/kubernetes/*",
		"drivers/*/generated/kubernetes/operator/*", "monitoring/kubernetes/*.yaml",
		"monitoring/kubernetes/generated/*", "namespace/*",
	} {
		objects, err := manifestsIn(pattern)
		if err != nil {
			return err
		}
		for _, o := range objects {
			instance := o.Labels[instanceLabel]
			if !u.all && instance != u.of[0].instance() {
				continue
			}
			u.known[knownAs(o.GroupVersionKind(), o.Name)] = instance
			if u.all && o.Kind == "Namespace" {
				u.namespaces = append(u.namespaces, o.Name)
			}
			for _, rule := range o.Rules {
				for _, name := range rule.ResourceNames {
					for _, resource := range rule.Resources {
						if slices.Contains(rule.Verbs, "update") {
							u.known[resource+" "+name] = instance
						}
					}
				}
			}
		}
	}
	for _, d := range u.of {
		for _, name := range d.allLeases() {
			u.known["leases "+name] = d.instance()
		}
		u.learnClasses(ctx, d)
	}
	return nil
}

// second returns an error if another installation shares the objects that have no namespace.
func (u *uninstallation) second() error {
	for _, d := range u.of {
		if other := u.guest.second(d); other != "" {
			return fmt.Errorf("operators of %s run in the namespaces %s and %s, and both need the objects "+
				"without a namespace. Run: kubectl delete deployment %s --namespace=NAMESPACE for the one "+
				"that you do not need. To keep the other, then install it again as before; to remove it, "+
				"too, repeat this command", d.title, d.namespace, other, d.operator)
		}
	}
	return nil
}

// learnClasses remembers the StorageClasses that the operator of a driver removes itself if the
// administrator wants none.
func (u *uninstallation) learnClasses(ctx context.Context, d driver) {
	object, chosen := &unstructured.Unstructured{}, map[string]bool{}
	object.SetGroupVersionKind(u.guest.kindOf(d))
	if find(ctx, u.guest, "", d.name, object) != nil {
		more, _, _ := unstructured.NestedSlice(object.Object, "spec", "classes")
		for _, one := range more {
			fields, _ := one.(map[string]any)
			name, _ := fields["name"].(string)
			chosen[name] = true
		}
	}
	names := classes.NamesOf(d.kind, d.name)
	visit(ctx, u.guest, &storagev1.StorageClassList{}, func(c *storagev1.StorageClass) {
		of := c.Parameters[classes.TypeParameter]
		if names.IsClassOf(c, of) && (chosen[c.Name] || names.IsNameOf(c.Name, of)) {
			u.known["storageclasses "+c.Name] = d.instance()
		}
	})
}

func knownAs(kind schema.GroupVersionKind, name string) string {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource.Resource + " " + name
}

// owns returns whether an object belongs to the installation. Users give our labels to objects of
// their own, and copy objects with their labels.
func (u *uninstallation) owns(o *object) bool {
	instance, isKnown := u.known[knownAs(o.GroupVersionKind(), o.Name)]
	if of := o.Labels[instanceLabel]; strings.HasPrefix(o.Kind, "Role") &&
		strings.HasPrefix(o.Name, readsSecret) {
		instance = of
		isKnown = slices.ContainsFunc(u.of, func(d driver) bool { return d.instance() == of })
	}
	isLabeled := o.Labels[partLabel] == partOf &&
		(instance == "" || o.Labels[instanceLabel] == instance)
	adopted := []string{"CSIDriver", "StorageClass", "VolumeSnapshotClass"} // of releases of others
	isHere := o.Namespace == "" || slices.Contains(u.namespaces, o.Namespace)
	switch {
	case !isKnown, o.Annotations[releaseName] != "" && slices.Contains(adopted, o.Kind):
		return false
	case o.Kind == "Lease", slices.Contains(ownKinds(), o.GroupVersionKind()):
		return isHere
	case instance == "", o.Kind == "Secret", o.Kind == "ConfigMap":
		return isHere && isLabeled
	}
	return isLabeled
}
