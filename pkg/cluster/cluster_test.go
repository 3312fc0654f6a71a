package cluster_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// There is no server to connect to.
func TestConnectSendsNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flavour           flavour.Flavour
		guest, controller []string
	}{
		{flavour.Standalone, []string{"", "openshift-config"}, []string{"", "openshift-config"}},
		{flavour.HyperShift, []string{""}, nil},
	} {
		config := &rest.Config{Host: "https://own.invalid"}
		got, err := cluster.Connect(cluster.Options{
			ControlPlane: config, Guest: config, Flavour: test.flavour,
			Namespaces: test.flavour.Namespaces("operator", "driver"), Driver: "x",
			Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
		})
		assert.NilError(t, err)
		one := got.Side(flavour.ControlPlane) == got.Side(flavour.Guest)
		assert.Check(t, is.Equal(one, test.flavour == flavour.Standalone), "the sides are one")
		assert.Check(t, is.Equal(got.HostedControlPlanes == nil, one), "no HostedControlPlanes")
		for side, want := range map[flavour.Side][]string{
			flavour.Guest: test.guest, flavour.ControlPlane: test.controller,
		} {
			assert.Check(t, is.DeepEqual(sets.New(want...), got.Side(side).Informers.Namespaces()), side)
		}
		assert.Check(t, config.QPS == 0, "the caller's config is changed")
	}
}

func TestStorageClassStateIsChecked(t *testing.T) {
	t.Parallel()
	for state, want := range map[opv1.StorageClassStateName]opv1.StorageClassStateName{
		"missing":                  opv1.ManagedStorageClass,
		"":                         opv1.ManagedStorageClass,
		opv1.UnmanagedStorageClass: opv1.UnmanagedStorageClass,
		opv1.RemovedStorageClass:   opv1.RemovedStorageClass,
	} {
		driver := &opv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		if driver.Spec.StorageClassState = state; state == "missing" {
			driver = nil
		}
		f := clustertest.New(t, clustertest.Seed{ClusterCSIDriver: driver})
		f.Start(t)
		got, err := f.StorageClassState("x")
		assert.NilError(t, err)
		assert.Check(t, is.Equal(got, want), "storageClassState is %q", state)
	}
	f := clustertest.New(t, clustertest.Seed{})
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	assert.NilError(t, f.State.Informer().GetStore().Add(object))
	_, err := f.StorageClassState("x")
	assert.Check(t, err != nil, "an object of another type")
}
