package cluster_test

import (
	"context"
	"testing"
	"time"

	"gotest.tools/v3/assert"
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
		t.Run(string(test.flavour), func(t *testing.T) {
			t.Parallel()
			config := &rest.Config{Host: "https://own.invalid"}
			got, err := cluster.Connect(cluster.Options{
				ControlPlane: config, Guest: config, Flavour: test.flavour,
				Namespaces: test.flavour.Namespaces("operator", "driver"), Driver: "x",
				Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
			})
			assert.NilError(t, err)
			one := got.Side(flavour.ControlPlane) == got.Side(flavour.Guest)
			assert.Check(t, one == (test.flavour == flavour.Standalone), "the sides are one: %t", one)
			for side, want := range map[flavour.Side][]string{
				flavour.Guest:        test.guest,
				flavour.ControlPlane: test.controller,
			} {
				if namespaces := got.Side(side).Informers.Namespaces(); !namespaces.Equal(sets.New(want...)) {
					t.Errorf("%s informers of %v, want %v", side, namespaces, want)
				}
			}
			assert.Check(t, config.QPS == 0, "the caller's config is changed")
		})
	}
}

func TestStorageClassStateIsChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		driver *opv1.ClusterCSIDriver
		want   opv1.StorageClassStateName
	}{
		{"no ClusterCSIDriver", nil, opv1.ManagedStorageClass},
		{"unset", driverWith(""), opv1.ManagedStorageClass},
		{"Managed", driverWith(opv1.ManagedStorageClass), opv1.ManagedStorageClass},
		{"Unmanaged", driverWith(opv1.UnmanagedStorageClass), opv1.UnmanagedStorageClass},
		{"Removed", driverWith(opv1.RemovedStorageClass), opv1.RemovedStorageClass},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, clustertest.Seed{ClusterCSIDriver: test.driver})
			f.Start(t)
			if got, err := f.StorageClassState("x"); err != nil || got != test.want {
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
}

func TestStorageClassStateOfUnknownTypeIsAnError(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{})
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	assert.NilError(t, f.State.Informer().GetStore().Add(object))
	if _, err := f.StorageClassState("x"); err == nil {
		t.Error("got no error")
	}
}

func driverWith(state opv1.StorageClassStateName) *opv1.ClusterCSIDriver {
	return &opv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec:       opv1.ClusterCSIDriverSpec{StorageClassState: state},
	}
}

// starts counts calls of Start.
type starts int

func (s *starts) Start(<-chan struct{}) { *s++ }

func TestStartStartsEveryInformerFactory(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{})
	var further starts
	f.AddInformerFactory(&further)
	assert.Check(t, further == 0, "started before Start")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if f.Cluster.Start(ctx); further != 1 {
		t.Errorf("started %d times", further)
	}
}
