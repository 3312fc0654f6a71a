package legacy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
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
)

const (
	manilaDriver = "manila.csi.openstack.org"
	cinderDriver = "cinder.csi.openstack.org"
)

func generations(t *testing.T, driver string, f flavour.Flavour) []legacy.Generation {
	t.Helper()
	found, err := legacy.Generations(driver, f, "control-plane")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// eachGeneration calls test for every generation in each flavour.
func eachGeneration(
	t *testing.T, test func(t *testing.T, f flavour.Flavour, g legacy.Generation),
) {
	t.Helper()
	for _, driver := range []string{manilaDriver, cinderDriver} {
		for _, f := range flavour.All() {
			for _, g := range generations(t, driver, f) {
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
		for _, f := range flavour.All() {
			var names []string
			for _, g := range generations(t, driver, f) {
				names = append(names, g.Name)
			}
			if diff := cmp.Diff(want[f], names); diff != "" {
				t.Errorf("generations of %s, %s (-want +got):\n%s", driver, f, diff)
			}
		}
	}
}

func TestEveryFileBelongsToAGeneration(t *testing.T) {
	t.Parallel()
	loaded := 0
	for _, driver := range []string{manilaDriver, cinderDriver} {
		for _, f := range flavour.All() {
			for _, g := range generations(t, driver, f) {
				if _, err := os.Stat(filepath.Join(g.Name, "objects")); err == nil {
					loaded += len(g.Objects)
				}
			}
		}
	}
	files := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, _ fs.DirEntry, err error) error {
		parts := strings.Split(file, "/")
		switch {
		case filepath.Ext(file) != ".yaml":
		case parts[1] == "objects":
			files++
		case len(parts) != 3 || parts[1] != "patches":
			if parts[1] != "conditions.yaml" {
				t.Errorf("%s belongs to no generation", file)
			}
		}
		return err
	})
	if err != nil || loaded != files {
		t.Errorf("%d objects are loaded from %d files (%v)", loaded, files, err)
	}
}

// lines returns the lines of each object as YAML, without indentation and release.
func lines(t *testing.T, g legacy.Generation) map[string][]string {
	t.Helper()
	_, release, _ := strings.Cut(g.Name, "-")
	all := map[string][]string{}
	for _, o := range g.Objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		key := o.GetKind() + "/" + o.GetName()
		for line := range strings.Lines(strings.ReplaceAll(string(text), release, "")) {
			all[key] = append(all[key], strings.TrimSpace(line))
		}
	}
	return all
}

// without returns the lines of a that are not in b, or there less often, sorted.
func without(a, b []string) []string {
	rest := slices.Clone(a)
	for _, line := range b {
		if i := slices.Index(rest, line); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		}
	}
	slices.Sort(rest)
	return rest
}

// From 4.23, pods name their ServiceAccount in another field, and the driver of Manila reads
// clouds.yaml.
func TestObjectsOf422DifferFromThoseOf51(t *testing.T) {
	t.Parallel()
	type difference struct{ Before, Since []string }
	account := func(name string, since ...string) difference {
		return difference{
			[]string{"serviceAccount: " + name}, append(since, "serviceAccountName: "+name),
		}
	}
	clouds := []string{
		"- key: clouds.yaml", "- mountPath: /etc/openstack", "- name: cloud-credentials", "items:",
		"name: cloud-credentials", "path: clouds.yaml", "readOnly: true", "secret:",
		"secretName: manila-cloud-credentials",
	}
	for driver, want := range map[string]map[string]difference{
		manilaDriver: {
			"Deployment/openstack-manila-csi-controllerplugin": account(
				"manila-csi-driver-controller-sa", clouds...),
			"DaemonSet/openstack-manila-csi-nodeplugin": account(
				"manila-csi-driver-node-sa", clouds...),
			"DaemonSet/csi-nodeplugin-nfsplugin": account("manila-csi-driver-node-sa"),
			"Secret/csi-manila-secrets": {
				[]string{
					"os-applicationCredentialID: example", "os-applicationCredentialSecret: example",
					"os-authURL: https://keystone.example.com/v3", "os-region: RegionOne",
				},
				[]string{
					"os-cloud: openstack", "os-cloudsFile: /etc/openstack/clouds.yaml",
					`os-useClouds: "true"`,
				},
			},
		},
		cinderDriver: {
			"Deployment/openstack-cinder-csi-driver-controller": account(
				"openstack-cinder-csi-driver-controller-sa"),
			"DaemonSet/openstack-cinder-csi-driver-node": account(
				"openstack-cinder-csi-driver-node-sa"),
		},
	} {
		for _, f := range flavour.All() {
			all := generations(t, driver, f)
			before, since := lines(t, all[len(all)-2]), lines(t, all[len(all)-1])
			got := map[string]difference{}
			for key := range since {
				d := difference{without(before[key], since[key]), without(since[key], before[key])}
				if len(d.Before)+len(d.Since) > 0 {
					got[key] = d
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || len(before) != len(since) {
				t.Errorf("%s, %s: %d and %d objects (-want +got):\n%s",
					driver, f, len(before), len(since), diff)
			}
		}
	}
}

// Kubernetes would ignore a field with a typing error.
func TestObjectsHaveOnlyFieldsOfTheirKind(t *testing.T) {
	t.Parallel()
	eachGeneration(t, func(t *testing.T, f flavour.Flavour, g legacy.Generation) {
		seen := map[string]bool{}
		for _, o := range g.Objects {
			key := string(o.Side) + " " + o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			if seen[key] {
				t.Errorf("%s is there twice", key)
			}
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
			if err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

// The operators create a CSIDriver again if the hash differs from that of their own spec.
func TestCSIDriversHaveTheHashOfTheirSpec(t *testing.T) {
	t.Parallel()
	eachGeneration(t, func(t *testing.T, _ flavour.Flavour, g legacy.Generation) {
		i := slices.IndexFunc(g.Objects, func(o legacy.Object) bool { return o.GetKind() == "CSIDriver" })
		var typed storagev1.CSIDriver
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(g.Objects[i].Object, &typed)
		if err != nil {
			t.Fatal(err)
		}
		want := typed.DeepCopy()
		if err := resourceapply.SetSpecHashAnnotation(&want.ObjectMeta, want.Spec); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Annotations, typed.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
	})
}

func TestConditionsAreEitherKeptOrStale(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{manilaDriver, cinderDriver} {
		for _, f := range flavour.All() {
			var kept []string
			all := generations(t, driver, f)
			for _, g := range all {
				kept = append(kept, g.Conditions.Kept...)
			}
			stale := legacy.StaleConditions(all)
			for _, condition := range stale {
				if slices.Contains(kept, condition) {
					t.Errorf("%s, %s: %s is both kept and stale", driver, f, condition)
				}
			}
			for _, condition := range append(kept, stale...) {
				if !slices.ContainsFunc([]string{"Disabled", "Degraded", "Available", "Progressing"},
					func(suffix string) bool { return strings.HasSuffix(condition, suffix) }) {
					t.Errorf("%s, %s: %s has no suffix of a condition", driver, f, condition)
				}
			}
		}
	}
}

// owned returns the kinds and names of all objects of the present bundles of a driver.
func owned(t *testing.T, driver string, f flavour.Flavour) func(kind, name string) bool {
	t.Helper()
	folders := map[string][]fs.FS{
		manilaDriver: {manila.Assets(), nfs.Assets()}, cinderDriver: {cinder.Assets()},
	}[driver]
	names := map[string]bool{}
	for _, folder := range folders {
		b, err := bundle.Load(folder, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, asset := range b.Assets() {
			var object struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := yaml.Unmarshal(asset.Data, &object); err != nil {
				t.Fatal(err)
			}
			names[object.Kind+"/"+object.Metadata.Name] = true
		}
	}
	return func(kind, name string) bool { return names[kind+"/"+name] }
}

func keys(leftovers []legacy.Leftover) []string {
	var all []string
	for _, l := range leftovers {
		all = append(all, l.GetKind()+"/"+l.GetName())
	}
	return all
}

func TestLeftoversAreTheRBACObjectsAndServicesThatNoBundleContains(t *testing.T) {
	t.Parallel()
	for driver, want := range map[string]map[flavour.Flavour][]string{
		manilaDriver: {flavour.Standalone: {
			"ClusterRoleBinding/manila-controller-privileged-binding",
			"ClusterRoleBinding/manila-kube-rbac-proxy-binding",
			"ClusterRoleBinding/manila-csi-main-provisioner-binding",
			"ClusterRoleBinding/manila-csi-main-snapshotter-binding",
			"ClusterRoleBinding/manila-node-privileged-binding",
			"ClusterRoleBinding/manila-csi-volumeattachment-reader-provisioner-binding",
			"ClusterRoleBinding/openstack-manila-csi-main-resizer-binding",
			"ClusterRoleBinding/openstack-manila-csi-main-snapshotter-binding",
			"ClusterRole/manila-kube-rbac-proxy-role",
			"ClusterRole/manila-privileged-role",
		}, flavour.HyperShift: {
			"ClusterRoleBinding/openstack-manila-kube-rbac-proxy-binding",
			"ClusterRoleBinding/openstack-manila-csi-main-resizer-binding",
			"ClusterRoleBinding/openstack-manila-csi-main-snapshotter-binding",
			"ClusterRole/openstack-manila-kube-rbac-proxy-role",
			"Service/manila-csi-driver-controller-metrics",
		}},
		cinderDriver: {flavour.Standalone: {
			"ClusterRoleBinding/openstack-cinder-controller-privileged-binding",
			"ClusterRoleBinding/openstack-cinder-csi-main-snapshotter-binding",
		}, flavour.HyperShift: {
			"ClusterRoleBinding/openstack-cinder-kube-rbac-proxy-binding",
			"ClusterRoleBinding/openstack-cinder-csi-main-snapshotter-binding",
			"ClusterRole/openstack-cinder-kube-rbac-proxy-role",
			"Service/openstack-cinder-csi-driver-controller-metrics",
		}},
	} {
		for _, f := range flavour.All() {
			got := legacy.Leftovers(generations(t, driver, f), owned(t, driver, f))
			if diff := cmp.Diff(want[f], keys(got)); diff != "" {
				t.Errorf("leftovers of %s, %s (-want +got):\n%s", driver, f, diff)
			}
		}
	}
}

func TestOnlyRBACObjectsAndServicesAreLeftovers(t *testing.T) {
	t.Parallel()
	nothing := func(string, string) bool { return false }
	eachGeneration(t, func(t *testing.T, _ flavour.Flavour, g legacy.Generation) {
		leftovers := legacy.Leftovers([]legacy.Generation{g}, nothing)
		if len(leftovers) == 0 {
			t.Error("there are none")
		}
		roles := false
		for _, l := range leftovers {
			if l.GetAPIVersion() != "rbac.authorization.k8s.io/v1" && l.GetKind() != "Service" {
				t.Errorf("%s %s is a leftover", l.GetKind(), l.GetName())
			}
			isRole := !strings.HasSuffix(l.GetKind(), "Binding")
			if roles && !isRole {
				t.Errorf("%s follows a role", l.GetName())
			}
			roles = isRole
		}
	})
}

func TestLeftoverComparesContentWithEachGeneration(t *testing.T) {
	t.Parallel()
	all := generations(t, cinderDriver, flavour.Standalone)
	newer, list := all[1], []any{map[string]any{"verbs": []any{"list"}}}
	for i, o := range newer.Objects {
		if o.GetName() == "openstack-cinder-kube-rbac-proxy-role" {
			newer.Objects[i].Unstructured = o.DeepCopy()
			newer.Objects[i].Object["rules"] = list
		}
	}
	leftovers := legacy.Leftovers(all, func(_, name string) bool {
		return name != "openstack-cinder-kube-rbac-proxy-role"
	})
	if len(leftovers) != 1 {
		t.Fatalf("leftovers are %v, want one for both generations", keys(leftovers))
	}
	live := leftovers[0].DeepCopy()
	live.SetResourceVersion("5")
	live.SetLabels(map[string]string{"of": "somebody"})
	for _, test := range []struct {
		name  string
		field string
		value any
		want  bool
	}{
		{"as the older release wrote it", "rules", live.Object["rules"], true},
		{"as the newer release wrote it", "rules", list, true},
		{"other rules", "rules", []any{}, false},
		{"rules of other roles", "aggregationRule", map[string]any{}, false},
	} {
		changed := live.DeepCopy()
		changed.Object[test.field] = test.value
		if got := leftovers[0].Unchanged(changed); got != test.want {
			t.Errorf("%s: unchanged is %v", test.name, got)
		}
	}
}

// The API server and other releases change the rest of a Service.
func TestServiceIsUnchangedWhileItsSelectorIs(t *testing.T) {
	t.Parallel()
	leftovers := legacy.Leftovers(generations(t, cinderDriver, flavour.HyperShift),
		owned(t, cinderDriver, flavour.HyperShift))
	service := leftovers[len(leftovers)-1]
	for name, test := range map[string]struct {
		field string
		value any
		want  bool
	}{
		"other ports":          {"ports", []any{}, true},
		"an address":           {"clusterIP", "10.0.0.1", true},
		"a selector of others": {"selector", map[string]any{"app": "other"}, false},
		"no selector":          {"selector", nil, false},
	} {
		live := service.DeepCopy()
		spec, _ := live.Object["spec"].(map[string]any)
		spec[test.field] = test.value
		if got := service.Unchanged(live); got != test.want {
			t.Errorf("%s: unchanged is %t", name, got)
		}
	}
}
