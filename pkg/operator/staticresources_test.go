package operator

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// created returns the resources that were created, in order and without repetitions. The order of
// roles of two kinds, and of bindings, is random.
func created(kube *fake.Clientset) []string {
	var ret []string
	for _, action := range kube.Actions() {
		if action.GetVerb() != "create" {
			continue
		}
		resource := action.GetResource().Resource
		for _, kind := range []string{"roles", "rolebindings"} {
			if strings.HasSuffix(resource, kind) {
				resource = "cluster" + kind + " or " + kind
			}
		}
		ret = append(ret, resource)
	}
	ret = slices.DeleteFunc(ret, func(r string) bool { return r == "events" })
	return slices.Compact(ret)
}

func TestRBACIsAppliedFirst(t *testing.T) {
	t.Parallel()
	const roles, bindings = "clusterroles or roles", "clusterrolebindings or rolebindings"
	rbac := []string{roles, bindings, "serviceaccounts"}
	tests := map[flavour.Flavour]map[flavour.Side][]string{
		flavour.Standalone: {flavour.Guest: append(slices.Clone(rbac),
			"services", "poddisruptionbudgets", "csidrivers")},
		flavour.HyperShift: {
			flavour.Guest:        append(slices.Clone(rbac), "configmaps", "csidrivers"),
			flavour.ControlPlane: {"serviceaccounts", "poddisruptionbudgets"},
		},
	}
	for f, want := range tests {
		d := assembled(t, f, plugins()...)[0]
		for _, c := range built(t, []*driver{d})[driverNeeded] {
			if !strings.Contains(c.Name(), "StaticResourcesController") {
				continue
			}
			assert.NilError(t, syncOnce(t, d, c))
		}
		got := map[flavour.Side][]string{}
		for side := range want {
			got[side] = created(d.cluster.Side(side).Kube.(*fake.Clientset))
		}
		assert.Check(t, is.DeepEqual(want, got), "creations by side, %s", f)
		// The controllers of the hash key and of the trusted CA bundle have not run.
		assert.Check(t, is.Equal(d.initialSyncs.pending.Load(), int32(2)), "pending initial syncs")
	}
}

func TestInvalidAssetsAreRejected(t *testing.T) {
	t.Parallel()
	odd := func(text string) func([]bundle.Asset) []bundle.Asset {
		return func([]bundle.Asset) []bundle.Asset {
			return []bundle.Asset{{
				Name: "odd.yaml", Role: bundle.Static, Side: flavour.ControlPlane, Data: []byte(text),
			}}
		}
	}
	for want, change := range map[string]func([]bundle.Asset) []bundle.Asset{
		`asset "odd.yaml": the object has no namespace: ` +
			`the operator can read such objects only in the guest cluster`: odd(
			`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", ` +
				`"metadata": {"name": "a"}}`),
		`decoding asset "odd.yaml"`: odd("{"),
		"has 2 assets of role": func(assets []bundle.Asset) []bundle.Asset {
			second := assets[len(assets)-1]
			second.Name = "second.yaml"
			return append(assets, second)
		},
	} {
		d := assembled(t, flavour.HyperShift, plugins()...)[1]
		d.bundle = bundle.New(change(d.bundle.Assets()))
		_, err := buildControllers([]*driver{d})
		assert.Check(t, is.ErrorContains(err, want))
	}
}

func TestOnlyAWorkloadOfTheControlPlaneCountsAsDeployed(t *testing.T) {
	t.Parallel()
	deployment := func(namespace string) runtime.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "openstack-manila-csi-controllerplugin",
		}}
	}
	daemonSet := func(name string) runtime.Object {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: operandNamespace, Name: name}}
	}
	const standalone, hyperShift = flavour.Standalone, flavour.HyperShift
	for _, tt := range []struct {
		flavour flavour.Flavour
		side    flavour.Side
		object  runtime.Object
		want    bool
	}{
		{standalone, flavour.Guest, daemonSet("other"), false},
		{standalone, flavour.Guest, deployment(operandNamespace), true},
		{standalone, flavour.Guest, daemonSet("openstack-manila-csi-nodeplugin"), true},
		{hyperShift, flavour.ControlPlane, deployment("operators"), true},
		{hyperShift, flavour.Guest, deployment(operandNamespace), false},
		{hyperShift, flavour.Guest, daemonSet("openstack-manila-csi-nodeplugin"), false},
	} {
		d := assembled(t, tt.flavour, plugins()...)[0]
		clustertest.Put(t, d.cluster.Side(tt.side).Kube.(*fake.Clientset), tt.object)
		got, err := d.deployed(t.Context())
		assert.NilError(t, err)
		assert.Check(t, is.Equal(got, tt.want), "%s, %s: %v", tt.flavour, tt.side, tt.object)
	}
}

func TestDeployedReturnsTheErrorOfTheAPIServer(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	kube := d.cluster.Side(flavour.Guest).Kube.(*fake.Clientset)
	refuse(&kube.Fake, "get", "*", errors.New("API server is down"))
	const want = "reading the driver's Deployment " +
		"openshift-manila-csi-driver/openstack-manila-csi-controllerplugin: API server is down"
	_, err := d.deployed(t.Context())
	assert.Check(t, is.Error(err, want))
}
