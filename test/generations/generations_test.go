package generations_test

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	cinder "github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	manila "github.com/openstack-csi/csi-operator/assets/drivers/manila"
	nfs "github.com/openstack-csi/csi-operator/assets/drivers/nfs"
	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/generations"
)

const (
	manilaDriver = "manila.csi.openstack.org"
	cinderDriver = "cinder.csi.openstack.org"
)

func of(t *testing.T, driver string, f flavour.Flavour) []generations.Generation {
	t.Helper()
	found, err := generations.Of(driver, f, "control-plane")
	assert.NilError(t, err)
	return found
}

func eachGeneration(
	t *testing.T, test func(t *testing.T, f flavour.Flavour, g generations.Generation),
) {
	t.Helper()
	for _, driver := range []string{manilaDriver, cinderDriver} {
		for _, f := range flavour.OnOpenShift() {
			for _, g := range of(t, driver, f) {
				t.Run(g.Name+"/"+string(f), func(t *testing.T) {
					t.Parallel()
					test(t, f, g)
				})
			}
		}
	}
}

func TestGenerationsAreSortedAndExistInTheirFlavours(t *testing.T) {
	t.Parallel()
	for driver, want := range map[string]map[flavour.Flavour][]string{
		manilaDriver: {
			flavour.Standalone: {"manila-4.17", "manila-4.22", "manila-5.1"},
			flavour.HyperShift: {"manila-4.22", "manila-5.1"},
		},
		cinderDriver: {
			flavour.Standalone: {"cinder-4.17", "cinder-4.22", "cinder-5.1"},
			flavour.HyperShift: {"cinder-4.22", "cinder-5.1"},
		},
		"new.csi.openstack.org": {},
	} {
		for _, f := range flavour.OnOpenShift() {
			var names []string
			for _, g := range of(t, driver, f) {
				names = append(names, g.Name)
			}
			assert.Check(t, is.DeepEqual(want[f], names), "generations of %s, %s", driver, f)
		}
	}
}

func TestEveryFileBelongsToAGeneration(t *testing.T) {
	t.Parallel()
	read := map[string]bool{}
	for _, driver := range []string{manilaDriver, cinderDriver} {
		for _, f := range flavour.OnOpenShift() {
			for _, g := range of(t, driver, f) {
				read[g.Name] = true
				for _, side := range flavour.Sides() {
					for _, folder := range []string{"objects/both", "patches/both"} {
						read[path.Join(g.Name, folder, string(side))] = true
					}
					for _, folder := range []string{"objects", "patches", "leftovers"} {
						read[path.Join(g.Name, folder, string(f), string(side))] = true
					}
				}
			}
		}
	}
	for _, folder := range []string{".", "../../legacy"} {
		err := fs.WalkDir(os.DirFS(folder), ".", func(file string, _ fs.DirEntry, err error) error {
			assert.Check(t, path.Ext(file) != ".yaml" || read[path.Dir(file)],
				"%s belongs to no generation", file)
			return err
		})
		assert.NilError(t, err)
	}
}

// Kubernetes would ignore a field with a typing error.
func TestObjectsHaveOnlyFieldsOfTheirKind(t *testing.T) {
	t.Parallel()
	eachGeneration(t, func(t *testing.T, f flavour.Flavour, g generations.Generation) {
		seen := map[string]bool{}
		for _, o := range g.Objects {
			key := string(o.Side) + " " + o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			assert.Check(t, !seen[key], "%s is there twice", key)
			seen[key] = true
			if o.Side == flavour.ControlPlane && f == flavour.HyperShift &&
				o.GetNamespace() != "control-plane" {
				t.Errorf("%s is not in the namespace of the hosted control plane", key)
			}
			typed, err := scheme.Scheme.New(o.GroupVersionKind())
			if runtime.IsNotRegisteredError(err) {
				continue // a custom resource
			}
			if err == nil {
				err = runtime.DefaultUnstructuredConverter.
					FromUnstructuredWithValidation(o.Object, typed, true)
			}
			assert.Check(t, err, key)
		}
	})
}

// The operators create a CSIDriver again if the hash differs from that of their own spec.
func TestCSIDriversHaveTheHashOfTheirSpec(t *testing.T) {
	t.Parallel()
	eachGeneration(t, func(t *testing.T, _ flavour.Flavour, g generations.Generation) {
		i := slices.IndexFunc(g.Objects, func(o legacy.Object) bool { return o.GetKind() == "CSIDriver" })
		var typed storagev1.CSIDriver
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(g.Objects[i].Object, &typed)
		assert.NilError(t, err)
		want := typed.DeepCopy()
		assert.NilError(t, resourceapply.SetSpecHashAnnotation(&want.ObjectMeta, want.Spec))
		assert.Check(t, is.DeepEqual(want.Annotations, typed.Annotations), "annotations")
	})
}

// owned returns all objects of the present bundles of a generation's driver, by kind and name.
func owned(t *testing.T, g generations.Generation, f flavour.Flavour) map[string]map[string]any {
	t.Helper()
	folders := []fs.FS{cinder.Assets()}
	if strings.HasPrefix(g.Name, "manila-") {
		folders = []fs.FS{manila.Assets(), nfs.Assets()}
	}
	objects := map[string]map[string]any{}
	for _, folder := range folders {
		b, err := bundle.Load(folder, f)
		assert.NilError(t, err)
		for _, asset := range b.Assets() {
			object := unstructured.Unstructured{}
			assert.NilError(t, yaml.Unmarshal(asset.Data, &object.Object))
			objects[object.GetKind()+" "+object.GetName()] = object.Object
		}
	}
	return objects
}

// An object of another kind is never a leftover: volumes depend on StorageClasses, Secrets and the
// CSIDriver.
func TestLeftoversAreTheRBACObjectsAndServicesThatNoBundleContains(t *testing.T) {
	t.Parallel()
	eachGeneration(t, func(t *testing.T, f flavour.Flavour, g generations.Generation) {
		objects := owned(t, g, f)
		for _, o := range g.Objects {
			removable := o.GroupVersionKind().Group == rbacv1.GroupName || o.GetKind() == "Service"
			want := removable && objects[o.GetKind()+" "+o.GetName()] == nil
			if got := slices.Contains(g.Leftovers, o); got != want {
				t.Errorf("%s %s is a leftover: %t", o.GetKind(), o.GetName(), got)
			}
		}
	})
}

// A rename would leave the old object behind, and the selector of a workload is immutable.
func TestBundlesKeepNamesAndSelectorsOfEarlierReleases(t *testing.T) {
	t.Parallel()
	notInBundles := []string{
		"ConfigMap cloud-conf", "Secret csi-manila-secrets", "StorageClass csi-manila-default",
	}
	eachGeneration(t, func(t *testing.T, f flavour.Flavour, g generations.Generation) {
		objects := owned(t, g, f)
		for _, o := range g.Objects {
			key := o.GetKind() + " " + o.GetName()
			if slices.Contains(g.Leftovers, o) || slices.Contains(notInBundles, key) {
				continue
			}
			assert.Check(t, objects[key] != nil, key)
			before, _, _ := unstructured.NestedMap(o.Object, "spec", "selector", "matchLabels")
			now, _, _ := unstructured.NestedMap(objects[key], "spec", "selector", "matchLabels")
			assert.Check(t, is.DeepEqual(before, now), key)
		}
	})
}
