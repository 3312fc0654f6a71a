package clustertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
)

// syncTimeout limits each wait.
const syncTimeout = time.Minute

// Operator is a fake client of one ClusterCSIDriver: the fake of library-go, made safe for
// concurrent use, with a real informer.
type Operator struct {
	v1helpers.OperatorClientWithFinalizers
	// Clock sets the transition times of conditions.
	Clock clock.PassiveClock

	mu       sync.Mutex
	client   dynamic.Interface
	informer cache.SharedIndexInformer
	started  bool
	// applied is the last status of each field manager.
	applied          map[string]*applyopv1.OperatorStatusApplyConfiguration
	writes, refusals int
}

func newOperator(client dynamic.Interface,
	informers dynamicinformer.DynamicSharedInformerFactory,
) *Operator {
	return &Operator{
		OperatorClientWithFinalizers: v1helpers.NewFakeOperatorClientWithObjectMeta(&metav1.ObjectMeta{},
			&opv1.OperatorSpec{ManagementState: opv1.Managed}, &opv1.OperatorStatus{}, nil),
		Clock:    clock.RealClock{},
		applied:  map[string]*applyopv1.OperatorStatusApplyConfiguration{},
		client:   client,
		informer: informers.ForResource(clusterCSIDrivers()).Informer(),
	}
}

// Set replaces the ClusterCSIDriver, also in the cache if the informer runs.
func (o *Operator) Set(tb testing.TB, driver *opv1.ClusterCSIDriver) {
	tb.Helper()
	put(tb, o.client, clusterCSIDrivers(), driver)
	_, _, version, err := o.GetOperatorState()
	if err == nil {
		_, _, err = o.UpdateOperatorSpec(tb.Context(), version, driver.Spec.OperatorSpec.DeepCopy())
	}
	assert.NilError(tb, err)
	if o.started {
		o.sync(tb)
	}
}

// SetSpec creates an object of another kind with a spec in YAML.
func (o *Operator) SetSpec(tb testing.TB, spec string) {
	tb.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": nil}}
	object.SetGroupVersionKind(clusterCSIDrivers().GroupVersion().WithKind("ClusterCSIDriver"))
	object.SetName("driver")
	var content map[string]any
	assert.NilError(tb, yaml.Unmarshal([]byte(spec), &content))
	object.Object["spec"] = content
	_, err := o.client.Resource(clusterCSIDrivers()).Create(tb.Context(), object,
		metav1.CreateOptions{})
	assert.NilError(tb, err)
	if o.started {
		o.sync(tb)
	}
}

// sync waits until the cache contains the objects of the fake.
func (o *Operator) sync(tb testing.TB) {
	tb.Helper()
	o.started = true
	held, err := o.client.Resource(clusterCSIDrivers()).List(tb.Context(), metav1.ListOptions{})
	assert.NilError(tb, err)
	err = wait.PollUntilContextTimeout(tb.Context(), time.Millisecond, syncTimeout, true,
		func(context.Context) (bool, error) {
			for i := range held.Items {
				cached, found, err := o.informer.GetStore().GetByKey(held.Items[i].GetName())
				if err != nil || !found {
					return false, err
				}
				if object, ok := cached.(*unstructured.Unstructured); !ok || !sameSpec(object, &held.Items[i]) {
					return false, nil
				}
			}
			return o.informer.HasSynced(), nil
		})
	assert.NilError(tb, err, "waiting for the informer of ClusterCSIDrivers")
}

func sameSpec(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(a.Object["spec"], b.Object["spec"])
}

// Conditions returns the conditions of the status.
func (o *Operator) Conditions(tb testing.TB) []opv1.OperatorCondition {
	tb.Helper()
	_, status, _, err := o.GetOperatorState()
	assert.NilError(tb, err)
	return status.Conditions
}

// Informer implements v1helpers.OperatorClient, as do the methods below.
func (o *Operator) Informer() cache.SharedIndexInformer { return o.informer }

// GetOperatorState returns copies.
func (o *Operator) GetOperatorState() (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	spec, status, version, err := o.OperatorClientWithFinalizers.GetOperatorState()
	return spec.DeepCopy(), status.DeepCopy(), version, err
}

// GetOperatorStateWithQuorum is GetOperatorState.
func (o *Operator) GetOperatorStateWithQuorum(context.Context) (*opv1.OperatorSpec,
	*opv1.OperatorStatus, string, error,
) {
	return o.GetOperatorState()
}

// UpdateOperatorSpec replaces the spec.
func (o *Operator) UpdateOperatorSpec(ctx context.Context, version string,
	spec *opv1.OperatorSpec,
) (*opv1.OperatorSpec, string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.OperatorClientWithFinalizers.UpdateOperatorSpec(ctx, version, spec)
}

// UpdateOperatorStatus replaces the status.
func (o *Operator) UpdateOperatorStatus(ctx context.Context, version string,
	status *opv1.OperatorStatus,
) (*opv1.OperatorStatus, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.OperatorClientWithFinalizers.UpdateOperatorStatus(ctx, version, status)
}
