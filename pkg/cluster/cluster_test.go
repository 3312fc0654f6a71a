package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/cluster/clustertest"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// TestConnect has nobody to connect to: nothing may be sent.
func TestConnect(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"clusters": [{"name": "g", "cluster": {"server": "https://guest.invalid"}}],
		"contexts": [{"name": "g", "context": {"cluster": "g"}}], "current-context": "g"}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flavour    flavour.Flavour
		kubeconfig string
		controller []string
	}{
		{flavour.Standalone, "", []string{"", "driver", cluster.UserConfigNamespace}},
		{flavour.HyperShift, kubeconfig, []string{"operator"}},
	} {
		t.Run(string(test.flavour), func(t *testing.T) {
			t.Parallel()
			config := &rest.Config{Host: "https://own.invalid"}
			got, err := cluster.Connect(cluster.Target{
				Config: config, GuestKubeconfig: test.kubeconfig, Flavour: test.flavour,
				Placement: cluster.Place(test.flavour, "operator", "driver"), Driver: "x",
				Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
			})
			if err != nil {
				t.Fatal(err)
			}
			one := got.Side(bundle.Controller) == got.Side(bundle.Guest)
			if one != (test.flavour == flavour.Standalone) {
				t.Errorf("the sides are one: %t", one)
			}
			if namespaces := got.Side(bundle.Guest).Informers.Namespaces(); !namespaces.HasAll("", "driver", cluster.UserConfigNamespace) {
				t.Errorf("guest informers of %v", namespaces)
			}
			if namespaces := got.Side(bundle.Controller).Informers.Namespaces(); namespaces.Len() != len(test.controller) ||
				!namespaces.HasAll(test.controller...) {
				t.Errorf("controller informers of %v, want %v", namespaces, test.controller)
			}
			if config.QPS != 0 {
				t.Error("the caller's config is changed")
			}
		})
	}
}

func TestConnectWithoutGuest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none")
	_, err := cluster.Connect(cluster.Target{Config: &rest.Config{}, GuestKubeconfig: path, Flavour: flavour.HyperShift})
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got error %v, want one that names %s", err, path)
	}
}

func TestStorageClassState(t *testing.T) {
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

func TestStorageClassStateOfSomethingElse(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{})
	if err := f.State.Informer().GetStore().Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.StorageClassState("x"); err == nil {
		t.Error("got no error")
	}
}

func driverWith(state opv1.StorageClassStateName) *opv1.ClusterCSIDriver {
	return &opv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: opv1.ClusterCSIDriverSpec{StorageClassState: state}}
}

// starts counts calls of Start.
type starts int

func (s *starts) Start(<-chan struct{}) { *s++ }

func TestStart(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{})
	var further starts
	f.AddStarter(&further)
	if further != 0 {
		t.Error("started before Start")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if f.Cluster.Start(ctx); further != 1 {
		t.Errorf("started %d times", further)
	}
}
