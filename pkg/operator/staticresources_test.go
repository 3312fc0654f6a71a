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
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/library-go/pkg/controller/factory"

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
			assert.NilError(t, c.Sync(t.Context(), factory.NewSyncContext(c.Name(), d.events)))
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
		var err error
		d.bundle, err = bundle.New(change(d.bundle.Assets()))
		assert.NilError(t, err)
		_, err = buildControllers([]*driver{d})
		assert.Check(t, is.ErrorContains(err, want))
	}
}

func TestOnlyOurObjectsTriggerASync(t *testing.T) {
	t.Parallel()
	filter := nameFilter("ours")
	object := func(name string) any {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for name, tt := range map[string]struct {
		object any
		want   bool
	}{
		"ours":      {object("ours"), true},
		"another":   {object("another"), false},
		"tombstone": {cache.DeletedFinalStateUnknown{Key: "a/another"}, true},
	} {
		assert.Check(t, is.Equal(filter(tt.object), tt.want), "%s: passes", name)
	}
}

func TestOnlyAWorkloadOfTheControlPlaneCountsAsDeployed(t *testing.T) {
	t.Parallel()
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: operandNamespace, Name: name}
	}
	deployment := &appsv1.Deployment{ObjectMeta: object("openstack-manila-csi-controllerplugin")}
	hosted := deployment.DeepCopy()
	hosted.Namespace = "operators"
	daemonSet := &appsv1.DaemonSet{ObjectMeta: object("openstack-manila-csi-nodeplugin")}
	foreign := &appsv1.DaemonSet{ObjectMeta: object("other")}
	tests := map[string]struct {
		flavour flavour.Flavour
		side    flavour.Side
		object  runtime.Object
		want    bool
	}{
		"foreign":                 {flavour.Standalone, flavour.Guest, foreign, false},
		"deployment":              {flavour.Standalone, flavour.Guest, deployment, true},
		"daemon set":              {flavour.Standalone, flavour.Guest, daemonSet, true},
		"hosted deployment":       {flavour.HyperShift, flavour.ControlPlane, hosted, true},
		"deployment in the guest": {flavour.HyperShift, flavour.Guest, deployment, false},
		"guest's daemon set":      {flavour.HyperShift, flavour.Guest, daemonSet, false},
	}
	for name, tt := range tests {
		d := assembled(t, tt.flavour, plugins()...)[0]
		kube := d.cluster.Side(tt.side).Kube.(*fake.Clientset)
		clustertest.Put(t, kube, tt.object)
		got, err := d.deployed(t.Context())
		assert.NilError(t, err)
		assert.Check(t, is.Equal(got, tt.want), name)
	}
}

func TestDeployedReturnsTheErrorOfTheAPIServer(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	down := errors.New("API server is down")
	d.cluster.Side(flavour.Guest).Kube.(*fake.Clientset).PrependReactor(
		"get", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, down })
	const want = "reading the driver's Deployment " +
		"openshift-manila-csi-driver/openstack-manila-csi-controllerplugin: API server is down"
	_, err := d.deployed(t.Context())
	assert.Check(t, is.Error(err, want))
}
