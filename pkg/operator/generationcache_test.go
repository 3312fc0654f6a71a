package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// workloadManifest returns the smallest workload of a kind that library-go accepts.
func workloadManifest(kind string) []byte {
	return []byte(
		`{"apiVersion": "apps/v1", "kind": "` + kind + `", "metadata": {"namespace": "ns", "name": "foo"},
		"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}`,
	)
}

// oldCache is a client whose cache contains no status.
type oldCache struct{ *clustertest.Operator }

func (oldCache) ApplyOperatorStatus(
	context.Context, string, *applyopv1.OperatorStatusApplyConfiguration,
) error {
	return nil
}

// The cache of the ClusterCSIDriver never contains the generation that the first reconcile wrote.
func TestOldCacheDoesNotUpdateTheWorkload(t *testing.T) {
	t.Parallel()
	recorder := events.NewInMemoryRecorder("test", clock.RealClock{})
	for _, kind := range []string{"Deployment", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			kube := fake.NewClientset()
			kube.PrependReactor("create", "*", generationOne)
			apps := informers.NewSharedInformerFactory(kube, 0).Apps().V1()
			client := &generationCache{OperatorClientWithFinalizers: oldCache{newFakeClient(t)}}
			var controller factory.Controller
			if kind == "Deployment" {
				controller = deploymentcontroller.NewDeploymentController(
					"Foo", workloadManifest(kind), recorder, client, kube, apps.Deployments(), nil, nil,
				)
			} else {
				controller = csidrivernodeservicecontroller.NewCSIDriverNodeServiceController("Foo",
					workloadManifest(kind), recorder, client, kube, apps.DaemonSets(), nil)
			}
			for range 2 {
				if err := controller.Sync(t.Context(), factory.NewSyncContext("Foo", recorder)); err != nil {
					t.Fatal(err)
				}
			}
			var writes []string
			for _, action := range kube.Actions() {
				if verb := action.GetVerb(); verb != "get" {
					writes = append(writes, fmt.Sprintf("%s %s", verb, action.GetResource().Resource))
				}
			}
			if got, want := strings.Join(writes, ", "), "create "+strings.ToLower(kind)+"s"; got != want {
				t.Errorf("two reconciliations of the same manifest sent %q, want %q", got, want)
			}
		})
	}
}

func TestEachDriverUsesTheGenerationCache(t *testing.T) {
	t.Parallel()
	drivers, err := assemble(newTestOperator(t, flavour.Standalone, plugins()...))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drivers {
		if _, ok := d.operator.(*generationCache); !ok {
			t.Errorf("the client of driver %s is a %T", d.ConditionPrefix, d.operator)
		}
	}
}

// generationOne gives a new workload generation 1, as the API server does, and completes its
// rollout.
func generationOne(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok {
		return false, nil, nil
	}
	switch workload := create.GetObject().(type) {
	case *appsv1.DaemonSet:
		workload.Generation, workload.Status.ObservedGeneration = 1, 1
	case *appsv1.Deployment:
		workload.Generation = 1
		workload.Status = appsv1.DeploymentStatus{
			ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
		}
	}
	return false, nil, nil
}
