package manila

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster/clustertest"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// surroundings are of a standalone cluster with these objects.
func surroundings(t *testing.T, objects ...runtime.Object) (*clustertest.Fake, plugin.Surroundings) {
	t.Helper()
	fake := clustertest.New(t, clustertest.Seed{
		DriverNamespace:  Namespace,
		ClusterCSIDriver: csiDriver(opv1.Managed, opv1.ManagedStorageClass),
		Guest:            objects,
	})
	return fake, plugin.Surroundings{
		Cluster:  fake.Cluster,
		Settings: &settings.Settings{},
		Events:   events.NewInMemoryRecorder("test", clocktesting.NewFakePassiveClock(time.Unix(0, 0))),
	}
}

func csiDriver(management opv1.ManagementState, classes opv1.StorageClassStateName) *opv1.ClusterCSIDriver {
	return &opv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: string(Name)},
		Spec: opv1.ClusterCSIDriverSpec{
			OperatorSpec:      opv1.OperatorSpec{ManagementState: management},
			StorageClassState: classes,
		},
	}
}

// settle waits until what an informer has is what the API server has.
func settle[T any](t *testing.T, served, cached func() ([]T, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		want, err := served()
		if err != nil {
			return false, err
		}
		got, err := cached()
		if err != nil || len(got) != len(want) {
			return false, err
		}
		for _, w := range want {
			found := false
			for _, g := range got {
				found = found || equality.Semantic.DeepEqual(w, g)
			}
			if !found {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("the informer does not catch up: %v", err)
	}
}
