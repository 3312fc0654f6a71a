package seed

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func names(objects []*unstructured.Unstructured) []string {
	var all []string
	for _, o := range objects {
		all = append(all, strings.TrimPrefix(o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName(), " "))
	}
	return all
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	const clouds, ca = "clouds: {\"a\": 'b'}\n", "-----BEGIN\nx\n"
	for name, test := range map[string]struct {
		ca   string
		want map[string]any
	}{
		"plain": {want: map[string]any{"clouds.yaml": clouds}},
		"TLS":   {ca: ca, want: map[string]any{"clouds.yaml": clouds, "cacert": ca}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := Render(OpenStackFolder, Values{Cloud: Cloud{Clouds: clouds, CA: test.ca, Region: "R1"}})
			if err != nil {
				t.Fatal(err)
			}
			want := []string{
				"ConfigMap openshift-config/cloud-provider-config",
				"ConfigMap openshift-cluster-csi-drivers/cloud-provider-config",
				"Secret openshift-cluster-csi-drivers/openstack-cloud-credentials",
				"Secret openshift-cluster-csi-drivers/manila-cloud-credentials",
				"Secret openshift-manila-csi-driver/manila-cloud-credentials",
			}
			if diff := cmp.Diff(want, names(objects)); diff != "" {
				t.Fatalf("objects (-want +got):\n%s", diff)
			}
			for _, o := range objects[2:] {
				if diff := cmp.Diff(test.want, o.Object["stringData"]); diff != "" {
					t.Errorf("Secret %s (-want +got):\n%s", o.GetName(), diff)
				}
			}
			for _, o := range objects[:2] {
				bundle, found, err := unstructured.NestedString(o.Object, "data", "ca-bundle.pem")
				if err != nil || bundle != test.ca || found != (test.ca != "") {
					t.Errorf("ConfigMap %s has CA %q, %t, %v", o.GetNamespace(), bundle, found, err)
				}
			}
		})
	}
}

func TestEveryFolderRenders(t *testing.T) {
	t.Parallel()
	entries, err := manifests.ReadDir("manifests")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range entries {
		objects, err := Render(folder.Name(), Values{InfrastructureName: "i", OperatorAddress: "127.0.0.1:1"})
		if err != nil {
			t.Error(err)
		}
		if len(objects) == 0 {
			t.Errorf("folder %q has no objects", folder.Name())
		}
		all := names(objects)
		slices.Sort(all)
		if len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("folder %q has an object twice: %q", folder.Name(), all)
		}
	}
}

// The limits that operators trip over must stay.
func TestManilaOperatorRights(t *testing.T) {
	t.Parallel()
	objects, err := Render("manila-csi-driver-operator", Values{OperatorAddress: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterRole" })
	var role rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &role); err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]bool{
		"patch storage.k8s.io/storageclasses":                   false,
		"update storage.k8s.io/storageclasses":                  true,
		"delete /secrets":                                       false,
		"patch /secrets":                                        true,
		"update apiextensions.k8s.io/customresourcedefinitions": false,
		"list monitoring.coreos.com/servicemonitors":            false,
		"update monitoring.coreos.com/servicemonitors":          true,
		"get config.openshift.io/featuregates":                  false,
		"watch config.openshift.io/apiservers":                  true,
		"create authentication.k8s.io/tokenreviews":             true,
		"create authorization.k8s.io/subjectaccessreviews":      false,
		"update operator.openshift.io/clustercsidrivers/status": true,
		"bind rbac.authorization.k8s.io/clusterroles":           false,
		"get storage.k8s.io/volumeattributesclasses":            false,
		"use security.openshift.io/securitycontextconstraints":  true,
		"create networking.k8s.io/networkpolicies":              true,
		"create snapshot.storage.k8s.io/volumesnapshots":        false,
		"patch storage.k8s.io/volumeattachments/status":         false,
		"list coordination.k8s.io/leases":                       true,
		"delete policy/poddisruptionbudgets":                    true,
		"create discovery.k8s.io/endpointslices":                false,
	} {
		verb, resource, _ := strings.Cut(request, " ")
		group, resource, _ := strings.Cut(resource, "/")
		if got := allows(role.Rules, verb, group, resource); got != want {
			t.Errorf("%s: allowed %t, want %t", request, got, want)
		}
	}
}

func allows(rules []rbacv1.PolicyRule, verb, group, resource string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, verb) && slices.Contains(r.Resources, resource) &&
			(slices.Contains(r.APIGroups, group) || slices.Contains(r.APIGroups, "*"))
	})
}

func TestOperators(t *testing.T) {
	t.Parallel()
	operators, err := Operators([]string{"manila"})
	if err != nil {
		t.Fatal(err)
	}
	env := operators[0].Env()
	if !slices.IsSorted(env) {
		t.Errorf("environment is not sorted: %q", env)
	}
	if want := "NFS_DRIVER_IMAGE=registry.devcluster.example.com/openshift/csi-driver-nfs:latest"; !slices.Contains(env, want) {
		t.Errorf("environment lacks %q: %q", want, env)
	}
	if _, err := Operators([]string{"swift"}); err == nil || !strings.Contains(err.Error(), "only manila") {
		t.Errorf("unknown driver: got error %v, want the known ones named", err)
	}
}
