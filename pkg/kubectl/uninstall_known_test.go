package kubectl

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// labeledByUsers returns objects of users of all kinds of an installation: with its label, as Flux
// sets it, with all labels, as in a copy, and with a name of ours, but not in our namespace.
func labeledByUsers(c *installedCluster) (all []client.Object) {
	c.Helper()
	for _, ours := range c.all(c.Context()) {
		if ours.Labels[partLabel] != partOf || slices.Contains(ownKinds(), ours.GroupVersionKind()) {
			continue
		}
		add := func(namespace, name string, labels map[string]string) {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(ours.GroupVersionKind())
			if u.SetName(name); ours.Namespace != "" {
				u.SetNamespace(namespace)
			}
			u.SetLabels(maps.Clone(labels))
			all = append(all, u)
		}
		alone := map[string]string{partLabel: partOf}
		for _, labels := range []map[string]string{alone, ours.Labels} {
			add(ours.Namespace, "mine-"+ours.Name, labels)
			add("shop", "mine-"+ours.Name, labels)
		}
		if ours.Namespace != "" {
			add("shop", ours.Name, alone)
		}
		if ours.Kind == "Secret" || ours.Kind == "ConfigMap" {
			add("shop", ours.Name, ours.Labels)
		}
	}
	for _, class := range []storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "cinder-sc"}, Provisioner: "cinder.csi.openstack.org"},
		{ObjectMeta: metav1.ObjectMeta{Name: "copy"}, Provisioner: shareDriver},
	} {
		class.Parameters = map[string]string{"type": "gold"}
		class.Labels = map[string]string{partLabel: partOf, instanceLabel: "openstack-manila"}
		all = append(all, &class)
	}
	return unique(all)
}

func TestUninstallRefusesWithASecondInstallation(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	for _, file := range files {
		if file.GetName() == "manila-csi-driver-operator" && file.GetKind() == "Deployment" {
			second := file.DeepCopy()
			second.SetNamespace("team")
			files = append(files, *second)
		}
	}
	c := newInstalledCluster(t, files)
	code, output := c.uninstall()
	assert.Check(t, code == exitFailed && strings.Contains(output, "operators of Manila run in the "+
		"namespaces team and openstack-csi"), "exit code %d: %s", code, output)
	assert.Check(t, is.Len(c.deleted, 0))
}

func TestUninstallKeepsWhatUsersLabelAndCopy(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	const granted = "manila-csi-driver-reads-csi-manila-secrets"
	labels := map[string]string{partLabel: partOf, instanceLabel: "openstack-manila"}
	for i := range files {
		if files[i].GetKind() == "ManilaDriver" {
			assert.NilError(t, unstructured.SetNestedSlice(files[i].Object,
				[]any{map[string]any{"name": "nightly", "type": "gold"}}, "spec", "classes"))
		}
	}
	class := &storagev1.StorageClass{Provisioner: shareDriver}
	class.Name, class.Labels = "nightly", labels
	class.Parameters = map[string]string{"type": "gold"}
	made := []client.Object{
		class, newObject("rbac.authorization.k8s.io/v1", "Role", "grants", granted, labels),
		newObject("v1", "ConfigMap", defaultNamespace, "cloud-conf",
			map[string]string{partLabel: partOf, instanceLabel: "openstack-cinder"}),
	}
	for _, args := range []string{"", "manila", "cinder"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			alone := newInstalledCluster(t, files, made...)
			users := labeledByUsers(alone)
			c := newInstalledCluster(t, files, append(users, made...)...)
			for _, one := range []*installedCluster{alone, c} {
				code, output := one.uninstall(strings.Fields(args)...)
				assert.Assert(t, code == exitOK, output)
			}
			want := slices.DeleteFunc(alone.deleted, func(name string) bool { // they contain others now
				return strings.HasPrefix(name, "Namespace ")
			})
			for _, name := range []string{
				"ConfigMap cloud-conf", "StorageClass nightly", "Role " + granted,
			} {
				assert.Check(t, args != "" || slices.Contains(want, name), name)
			}
			slices.Sort(want)
			slices.Sort(c.deleted)
			assert.Check(t, is.DeepEqual(want, c.deleted))
			left := c.left()
			for _, o := range users {
				name := o.GetObjectKind().GroupVersionKind().Kind + " " + o.GetNamespace() + "/" + o.GetName()
				_, isClass := o.(*storagev1.StorageClass)
				assert.Check(t, isClass || slices.Contains(left, name), name)
			}
		})
	}
}

// managers are objects that create marked objects again, with their definitions.
func managers() (all []client.Object) {
	for _, kind := range managerKinds() {
		plural := strings.ToLower(kind.Kind) + "s"
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Name, crd.Spec.Group = plural+"."+kind.Group, kind.Group
		crd.Spec.Names.Kind = kind.Kind
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v0"}, {Name: kind.Version, Served: true},
		}
		all = append(all, crd, newObject(kind.GroupVersion().String(), kind.Kind, "in", "drivers", nil))
	}
	return append(all, newObject("v1", "Secret", "in", "sh.helm.release.v1.drivers.v1",
		map[string]string{"owner": "helm", "name": "drivers", "status": "deployed"}))
}

func managerKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"},
		{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
		{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"},
		{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"},
	}
}
