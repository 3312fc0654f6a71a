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

// recorder is a Writer that only looks.
type recorder []*unstructured.Unstructured

func (r *recorder) Write(_ context.Context, object *unstructured.Unstructured) error {
	*r = append(*r, object)
	return nil
}

// populated returns what a side consists of.
func populated(t *testing.T, s Side, withCloud bool) []*unstructured.Unstructured {
	t.Helper()
	var got recorder
	if err := s.Populate(t.Context(), &got, withCloud); err != nil {
		t.Fatal(err)
	}
	return got
}

// aboutCloud keeps what says something about OpenStack.
func aboutCloud(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return !strings.Contains(o.GetName(), "cloud-") || strings.HasPrefix(o.GetKind(), "Namespace")
	})
}

// Cinder's operator must do without what is there for Manila's sake, and a hosted
// cluster without what only the installer makes.
func TestCredentials(t *testing.T) {
	t.Parallel()
	const clouds, ca = "clouds: {\"a\": 'b'}\n", "-----BEGIN\nx\n"
	const source, shared = "ConfigMap openshift-config/cloud-provider-config", "Secret openshift-cluster-csi-drivers/openstack-cloud-credentials"
	const hostedCA, hosted = "ConfigMap clusters-g/openstack-cloud-config", "Secret clusters-g/openstack-cloud-credentials"
	secrets := []string{
		shared, "Secret openshift-cluster-csi-drivers/manila-cloud-credentials",
		"Secret openshift-manila-csi-driver/manila-cloud-credentials",
	}
	both := append([]string{source, "ConfigMap openshift-cluster-csi-drivers/cloud-provider-config"}, secrets...)
	manila, cinder := operators(t, "manila"), operators(t, "cinder")
	plain, withCA := map[string]any{"clouds.yaml": clouds}, map[string]any{"clouds.yaml": clouds, "cacert": ca}
	for name, test := range map[string]struct {
		side  Side
		ca    string
		names []string
		want  map[string]any
	}{
		"plain":                {side: Standalone(manila), names: both, want: plain},
		"TLS":                  {side: Standalone(manila), ca: ca, names: both, want: withCA},
		"both":                 {side: Standalone(operators(t, "manila", "cinder")), names: both, want: plain},
		"Cinder only":          {side: Standalone(cinder), ca: ca, names: []string{source, shared}, want: withCA},
		"guest":                {side: Guest("g", manila), ca: ca, names: secrets, want: withCA},
		"control plane":        {side: ControlPlane("g", manila), names: []string{hosted, "Secret clusters-g/manila-cloud-credentials"}, want: plain},
		"Cinder's, and TLS":    {side: ControlPlane("g", cinder), ca: ca, names: []string{hostedCA, hosted}, want: withCA},
		"cluster for planes":   {side: Management()},
		"guest of Cinder only": {side: Guest("g", cinder), names: []string{shared}, want: plain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.side.Values.Cloud = Cloud{Clouds: clouds, CA: test.ca, Region: "R1"}
			if objects := aboutCloud(populated(t, test.side, false)); len(objects) > 0 {
				t.Errorf("without a cloud there are %q", names(objects))
			}
			objects := aboutCloud(populated(t, test.side, true))
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

func TestSharedSecretsHaveOneRequest(t *testing.T) {
	t.Parallel()
	of := func(request string) Operator {
		return Operator{Credentials: []Credential{{Namespace: "n", Name: "s", Request: request}}}
	}
	if err := checkCredentials([]Operator{of("a"), of("a")}); err != nil {
		t.Error(err)
	}
	err := checkCredentials([]Operator{of("a"), of("b")})
	if err == nil || !strings.Contains(err.Error(), `requests "a" and "b" for one Secret n/s`) {
		t.Errorf("got error %v, want both requests and the Secret", err)
	}
}

func TestRenewCredentialsTouchesNothingElse(t *testing.T) {
	t.Parallel()
	var got recorder
	if err := Standalone(operators(t, "cinder")).RenewCredentials(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"Secret openshift-cluster-csi-drivers/openstack-cloud-credentials"}
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// A side has no object twice, nor any that is not of its cluster.
func TestSides(t *testing.T) {
	t.Parallel()
	all := operators(t, knownDrivers()...)
	for name, test := range map[string]struct {
		side        Side
		has, hasNot []string
	}{
		"standalone": {side: Standalone(all), has: []string{
			"Node /devcluster-master-2", "Node /devcluster-worker-1", "Infrastructure /cluster",
			"ServiceAccount openshift-cluster-csi-drivers/manila-csi-driver-operator",
			"Role openshift-cluster-csi-drivers/manila-csi-driver-operator-role",
			"Service openshift-cluster-csi-drivers/manila-csi-driver-operator-metrics",
		}, hasNot: []string{"PriorityClass /hypershift-control-plane"}},
		"management": {side: Management(), has: []string{
			"Node /devcluster-master-2", "Node /devcluster-worker-1", "PriorityClass /hypershift-control-plane",
		}, hasNot: []string{"Infrastructure /cluster", "ClusterRole /openshift-csi-main-attacher-role"}},
		"control plane": {side: ControlPlane("g", all), has: []string{
			"Namespace /clusters-g", "HostedControlPlane clusters-g/g", "Secret clusters-g/pull-secret",
			"ServiceAccount clusters-g/manila-csi-driver-operator", "Role clusters-g/openstack-cinder-csi-driver-operator-role",
			"Deployment clusters-g/manila-csi-driver-operator", "ConfigMap clusters-g/openstack-cinder-csi-driver-operator-config",
			"Service clusters-g/manila-csi-driver-operator-metrics",
		}, hasNot: []string{
			"ClusterRole /manila-csi-driver-operator-clusterrole", "ClusterCSIDriver /manila.csi.openstack.org", "Node /g-worker-0",
		}},
		"guest": {side: Guest("g", all), has: []string{
			"Node /g-worker-1", "Infrastructure /cluster", "ClusterCSIDriver /cinder.csi.openstack.org",
			"Namespace /openshift-manila-csi-driver", "ClusterRole /manila-csi-driver-operator-clusterrole",
			"Role openshift-cluster-csi-drivers/openstack-cinder-csi-driver-operator-role",
		}, hasNot: []string{
			"Node /g-master-0", "Role openshift-cluster-csi-drivers/manila-csi-driver-operator-role",
			"ServiceAccount openshift-cluster-csi-drivers/manila-csi-driver-operator",
			"Service openshift-cluster-csi-drivers/manila-csi-driver-operator-metrics",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := names(populated(t, test.side, true))
			slices.Sort(got)
			for i := 1; i < len(got); i++ {
				if got[i] == got[i-1] {
					t.Errorf("%s is there twice", got[i])
				}
			}
			for _, want := range test.has {
				if !slices.Contains(got, want) {
					t.Errorf("no %s in %q", want, got)
				}
			}
			for _, unwanted := range test.hasNot {
				if slices.Contains(got, unwanted) {
					t.Errorf("it has %s", unwanted)
				}
			}
		})
	}
}

// What tells an operator about its hosted cluster.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	o := operators(t, "manila")[0]
	o.Address = "127.0.0.1:1"
	side := ControlPlane("g", []Operator{o})
	side.Values.GuestKubeconfig = "{a: b}"
	got := recorder(populated(t, side, false))
	if err := side.WriteGuestKubeconfig(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		object string
		path   []string
		want   string
	}{
		"kubeconfig": {
			object: "Secret clusters-g/service-network-admin-kubeconfig", path: []string{"stringData", "kubeconfig"}, want: "{a: b}",
		},
		"release": {
			object: "Deployment clusters-g/manila-csi-driver-operator",
			path:   []string{"metadata", "annotations", "release.openshift.io/desired-version"}, want: "4.99.0-guest",
		},
		"availability": {
			object: "HostedControlPlane clusters-g/g", path: []string{"spec", "controllerAvailabilityPolicy"}, want: "SingleReplica",
		},
		"configuration": {
			object: "ConfigMap clusters-g/manila-csi-driver-operator-config", path: []string{"data", "config.yaml"},
			want: "apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\nservingInfo:\n  bindAddress: 127.0.0.1:1\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := slices.Index(names(got), test.object)
			if i < 0 {
				t.Fatalf("no %s in %q", test.object, names(got))
			}
			value, _, err := unstructured.NestedString(got[i].Object, test.path...)
			if err != nil || value != test.want {
				t.Errorf("%s %q is %q, %v; want %q", test.object, test.path, value, err, test.want)
			}
		})
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
			folder := name + "/cluster"
			got[name] = wanted{
				clusterRole: allows(rules(t, folder, "ClusterRole", Values{}), verb, group, resource),
				role:        allows(rules(t, folder, "Role", Values{}), verb, group, resource),
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(wanted{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", request, diff)
		}
	}
}

// In the namespace of a hosted control plane there is nothing but a Role.
func TestHostedRights(t *testing.T) {
	t.Parallel()
	const manila, cinder = "manila-csi-driver-operator", "openstack-cinder-csi-driver-operator"
	for request, want := range map[string]map[string]bool{
		"watch hypershift.openshift.io/hostedcontrolplanes":  {manila: true, cinder: true},
		"update hypershift.openshift.io/hostedcontrolplanes": {manila: false, cinder: false},
		"delete /secrets":                           {manila: true, cinder: true},
		"create /serviceaccounts":                   {manila: true, cinder: true},
		"patch apps/deployments":                    {manila: true, cinder: true},
		"get apps/replicasets":                      {manila: true, cinder: false},
		"list apps/replicasets":                     {manila: false, cinder: false},
		"update apps/daemonsets":                    {manila: false, cinder: false},
		"delete policy/poddisruptionbudgets":        {manila: true, cinder: true},
		"update coordination.k8s.io/leases":         {manila: true, cinder: true},
		"create networking.k8s.io/networkpolicies":  {manila: false, cinder: false},
		"create rbac.authorization.k8s.io/roles":    {manila: false, cinder: false},
		"get monitoring.coreos.com/servicemonitors": {manila: false, cinder: false},
		"get config.openshift.io/infrastructures":   {manila: false, cinder: false},
	} {
		verb, resource, _ := strings.Cut(request, " ")
		group, resource, _ := strings.Cut(resource, "/")
		for name, want := range want {
			if got := allows(rules(t, name+"/control-plane", "Role", Values{}), verb, group, resource); got != want {
				t.Errorf("%s may %s: %t, want %t", name, request, got, want)
			}
		}
	}
}

// Only the Role of Cinder's operator differs in a guest.
func TestGuestRights(t *testing.T) {
	t.Parallel()
	const folder = "openstack-cinder-csi-driver-operator/cluster"
	for kind, want := range map[string]bool{"Role": true, "ClusterRole": false} {
		for guest, want := range map[string]bool{"": false, "g": want} {
			got := allows(rules(t, folder, kind, Values{Guest: guest}), "create", "", "persistentvolumeclaims")
			if got != want {
				t.Errorf("%s of guest %q allows to create claims: %t, want %t", kind, guest, got, want)
			}
		}
	}
}

// rules are those of the one object of a kind in a folder.
func rules(t *testing.T, folder, kind string, v Values) []rbacv1.PolicyRule {
	t.Helper()
	objects, err := Render(folder, v)
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
	const hosted = "DRIVER_CONTROL_PLANE_IMAGE=registry.devcluster.example.com/openshift/csi-driver-manila:control-plane"
	if o := operators(t, "manila")[0]; slices.Contains(o.Env(), hosted) || !slices.Contains(o.Hosted("g").Env(), hosted) {
		t.Errorf("only a hosted operator should have %s", hosted)
	}
	if got := operators(t, "cinder", "manila"); got[0].Driver != "cinder" || got[1].Driver != "manila" {
		t.Errorf("not in the order of the drivers: %+v", got)
	}
	for message, drivers := range map[string][]string{
		`"swift" is not known, only ` + strings.Join(knownDrivers(), ", "): {"manila", "swift"},
		"given twice": {"cinder", "manila", "cinder"},
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
		objects, err := Render(o.Name+"/cluster", Values{})
		if err != nil {
			t.Fatal(err)
		}
		mine := append(names(objects), o.Name, o.Program, o.Controller)
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
