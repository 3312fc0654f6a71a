package seed

import (
	"context"
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

func operators(t *testing.T, drivers ...string) []Operator {
	t.Helper()
	found, err := Operators(drivers)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Cinder's operator must do without what is there for Manila's sake.
func TestCredentials(t *testing.T) {
	t.Parallel()
	const clouds, ca = "clouds: {\"a\": 'b'}\n", "-----BEGIN\nx\n"
	const source, shared = "ConfigMap openshift-config/cloud-provider-config", "Secret openshift-cluster-csi-drivers/openstack-cloud-credentials"
	manila := []string{
		source, "ConfigMap openshift-cluster-csi-drivers/cloud-provider-config", shared,
		"Secret openshift-cluster-csi-drivers/manila-cloud-credentials",
		"Secret openshift-manila-csi-driver/manila-cloud-credentials",
	}
	for name, test := range map[string]struct {
		drivers []string
		ca      string
		names   []string
		want    map[string]any
	}{
		"plain":       {drivers: []string{"manila"}, names: manila, want: map[string]any{"clouds.yaml": clouds}},
		"TLS":         {drivers: []string{"manila"}, ca: ca, names: manila, want: map[string]any{"clouds.yaml": clouds, "cacert": ca}},
		"both":        {drivers: []string{"manila", "cinder"}, names: manila, want: map[string]any{"clouds.yaml": clouds}},
		"Cinder only": {drivers: []string{"cinder"}, ca: ca, names: []string{source, shared}, want: map[string]any{"clouds.yaml": clouds, "cacert": ca}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := Values{Operators: operators(t, test.drivers...), Cloud: Cloud{Clouds: clouds, CA: test.ca, Region: "R1"}}
			objects, err := Render(OpenStackFolder, values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.names, names(objects)); diff != "" {
				t.Fatalf("objects (-want +got):\n%s", diff)
			}
			for _, o := range objects {
				if o.GetKind() == "Secret" {
					if diff := cmp.Diff(test.want, o.Object["stringData"]); diff != "" {
						t.Errorf("Secret %s (-want +got):\n%s", o.GetName(), diff)
					}
					continue
				}
				bundle, found, err := unstructured.NestedString(o.Object, "data", "ca-bundle.pem")
				if err != nil || bundle != test.ca || found != (test.ca != "") {
					t.Errorf("ConfigMap %s has CA %q, %t, %v", o.GetNamespace(), bundle, found, err)
				}
			}
		})
	}
}

// writerFunc is a Writer that only looks.
type writerFunc func(*unstructured.Unstructured)

func (f writerFunc) Write(_ context.Context, object *unstructured.Unstructured) error {
	f(object)
	return nil
}

func TestApplyOfOneKind(t *testing.T) {
	t.Parallel()
	var got []*unstructured.Unstructured
	w := writerFunc(func(o *unstructured.Unstructured) { got = append(got, o) })
	values := Values{Operators: operators(t, "cinder")}
	if err := Apply(t.Context(), w, OpenStackFolder, values, "Secret"); err != nil {
		t.Fatal(err)
	}
	want := []string{"Secret openshift-cluster-csi-drivers/openstack-cloud-credentials"}
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestEveryFolderRenders(t *testing.T) {
	t.Parallel()
	entries, err := manifests.ReadDir("manifests")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range entries {
		objects, err := Render(folder.Name(), Values{
			InfrastructureName: "i", OperatorAddress: "127.0.0.1:1", Operators: operators(t, knownDrivers()...),
		})
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
func TestOperatorRights(t *testing.T) {
	t.Parallel()
	const manila, cinder = "manila-csi-driver-operator", "openstack-cinder-csi-driver-operator"
	type wanted struct{ clusterRole, role bool }
	no, everywhere, here := wanted{}, wanted{clusterRole: true}, wanted{role: true}
	for request, want := range map[string]map[string]wanted{
		"patch storage.k8s.io/storageclasses":                   {manila: no, cinder: no},
		"update storage.k8s.io/storageclasses":                  {manila: everywhere, cinder: everywhere},
		"delete /secrets":                                       {manila: here, cinder: here},
		"update apiextensions.k8s.io/customresourcedefinitions": {manila: no, cinder: no},
		"list monitoring.coreos.com/servicemonitors":            {manila: here, cinder: no},
		"update monitoring.coreos.com/servicemonitors":          {manila: {true, true}, cinder: here},
		"get config.openshift.io/featuregates":                  {manila: no, cinder: no},
		"watch config.openshift.io/apiservers":                  {manila: everywhere, cinder: everywhere},
		"create authentication.k8s.io/tokenreviews":             {manila: everywhere, cinder: everywhere},
		"create authorization.k8s.io/subjectaccessreviews":      {manila: no, cinder: no},
		"update operator.openshift.io/clustercsidrivers/status": {manila: everywhere, cinder: everywhere},
		"bind rbac.authorization.k8s.io/clusterroles":           {manila: no, cinder: no},
		"get storage.k8s.io/volumeattributesclasses":            {manila: no, cinder: no},
		"use security.openshift.io/securitycontextconstraints":  {manila: everywhere, cinder: everywhere},
		"create networking.k8s.io/networkpolicies":              {manila: everywhere, cinder: no},
		"create snapshot.storage.k8s.io/volumesnapshots":        {manila: no, cinder: no},
		"patch storage.k8s.io/volumeattachments/status":         {manila: no, cinder: everywhere},
		"list coordination.k8s.io/leases":                       {manila: everywhere, cinder: here},
		"delete policy/poddisruptionbudgets":                    {manila: everywhere, cinder: here},
		"create /services":                                      {manila: {true, true}, cinder: here},
		"create /serviceaccounts":                               {manila: everywhere, cinder: here},
		"list /pods":                                            {manila: {true, true}, cinder: {true, true}},
		"get /endpoints":                                        {manila: {true, true}, cinder: here},
		"create apps/daemonsets":                                {manila: everywhere, cinder: everywhere},
		"create discovery.k8s.io/endpointslices":                {manila: no, cinder: no},
	} {
		verb, resource, _ := strings.Cut(request, " ")
		group, resource, _ := strings.Cut(resource, "/")
		got := map[string]wanted{}
		for name := range want {
			got[name] = wanted{
				clusterRole: allows(rules(t, name, "ClusterRole"), verb, group, resource),
				role:        allows(rules(t, name, "Role"), verb, group, resource),
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(wanted{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", request, diff)
		}
	}
}

// rules are those of an operator's ClusterRole, or of its Role.
func rules(t *testing.T, operator, kind string) []rbacv1.PolicyRule {
	t.Helper()
	objects, err := Render(operator, Values{OperatorAddress: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	var role rbacv1.ClusterRole // a Role has its rules in the same place
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &role); err != nil {
		t.Fatal(err)
	}
	return role.Rules
}

func allows(rules []rbacv1.PolicyRule, verb, group, resource string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, verb) && slices.Contains(r.Resources, resource) &&
			(slices.Contains(r.APIGroups, group) || slices.Contains(r.APIGroups, "*"))
	})
}

func TestOperators(t *testing.T) {
	t.Parallel()
	for driver, want := range map[string]string{
		"manila": "NFS_DRIVER_IMAGE=registry.devcluster.example.com/openshift/csi-driver-nfs:latest",
		"cinder": "DRIVER_IMAGE=registry.devcluster.example.com/openshift/openstack-cinder-csi-driver:latest",
	} {
		env := operators(t, driver)[0].Env()
		if !slices.IsSorted(env) || !slices.Contains(env, want) {
			t.Errorf("environment of %s is not sorted or lacks %q: %q", driver, want, env)
		}
	}
	if got := operators(t, "cinder", "manila"); got[0].Driver != "cinder" || got[1].Driver != "manila" {
		t.Errorf("not in the order of the drivers: %+v", got)
	}
	for message, drivers := range map[string][]string{
		"only cinder, manila": {"manila", "swift"},
		"given twice":         {"cinder", "manila", "cinder"},
	} {
		if _, err := Operators(drivers); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: got error %v, want %q", drivers, err, message)
		}
	}
}

// Each operator has manifests, and a name, a program and a ClusterCSIDriver of its own.
func TestOperatorsDoNotOverlap(t *testing.T) {
	t.Parallel()
	all, err := AllOperators()
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for _, o := range all {
		objects, err := Render(o.Name, Values{OperatorAddress: "127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		mine := append(names(objects), o.Name, o.Program)
		if !slices.Contains(mine, "ClusterCSIDriver /"+o.ClusterCSIDriver) {
			t.Errorf("%s has no ClusterCSIDriver %s", o.Name, o.ClusterCSIDriver)
		}
		for _, name := range mine {
			if owner, taken := owners[name]; taken && owner != o.Driver {
				t.Errorf("%s is %s's and %s's", name, owner, o.Driver)
			}
			owners[name] = o.Driver
		}
	}
}
