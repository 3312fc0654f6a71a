package manila

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// hosted is the namespace of a hosted control plane.
const hosted = "clusters-a"

// dependencies returns the Dependencies of a standalone cluster with these objects.
func dependencies(
	tb testing.TB, objects ...runtime.Object,
) (*clustertest.Fake, plugin.Dependencies) {
	tb.Helper()
	return dependenciesOf(tb, clustertest.Seed{Guest: objects})
}

// dependenciesOf returns the Dependencies of the seed, with a managed driver.
func dependenciesOf(tb testing.TB, seed clustertest.Seed) (*clustertest.Fake, plugin.Dependencies) {
	tb.Helper()
	seed.OperatorNamespace, seed.DriverNamespace = hosted, Namespace
	if seed.Flavour == flavour.Kubernetes { // which has one namespace
		seed.OperatorNamespace = Namespace
	}
	seed.ClusterCSIDriver = csiDriver(opv1.Managed, opv1.ManagedStorageClass)
	fake := clustertest.New(tb, seed)
	return fake, plugin.Dependencies{
		Driver:   string(opv1.ManilaCSIDriver),
		Cluster:  fake.Cluster,
		Settings: &settings.Settings{},
		Events:   events.NewInMemoryRecorder("test", clocktesting.NewFakePassiveClock(time.Unix(0, 0))),
	}
}

// sourceOf returns the ConfigMap with the CA of the cloud in the namespace of a flavour.
func sourceOf(f flavour.Flavour, data map[string]string) *corev1.ConfigMap {
	meta := metav1.ObjectMeta{Namespace: "openshift-config", Name: "cloud-provider-config"}
	if f == flavour.HyperShift {
		meta = metav1.ObjectMeta{Namespace: hosted, Name: "openstack-cloud-config"}
	}
	return &corev1.ConfigMap{ObjectMeta: meta, Data: data}
}

func csiDriver(
	management opv1.ManagementState, classes opv1.StorageClassStateName,
) *opv1.ClusterCSIDriver {
	return &opv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: string(opv1.ManilaCSIDriver)},
		Spec: opv1.ClusterCSIDriverSpec{
			OperatorSpec:      opv1.OperatorSpec{ManagementState: management},
			StorageClassState: classes,
		},
	}
}
