package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// oneHandlerInformer is a shared informer with one handler, which calls those of all controllers.
// For each handler, a shared informer has two goroutines and a buffer of 16 KiB.
type oneHandlerInformer struct {
	cache.SharedIndexInformer
	handlers handlers
}

// AddEventHandler adds a handler. It must be called before the informer runs.
func (i *oneHandlerInformer) AddEventHandler(
	h cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.handlers.AddEventHandler(h)
}

// WhileManaged returns sync, which does nothing unless the operator reconciles: see guest.Managed.
func WhileManaged(client v1helpers.OperatorClient, sync factory.SyncFunc) factory.SyncFunc {
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		spec, _, _, err := client.GetOperatorState()
		if err != nil || !guest.Managed(spec) {
			return err
		}
		return sync(ctx, syncCtx)
	}
}

// managedPoll is how soon a controller of AwaitManaged notices the state Managed.
const managedPoll = time.Second

// AwaitManaged is WhileManaged for a controller that events of the object do not trigger.
func AwaitManaged(client v1helpers.OperatorClient, sync factory.SyncFunc) factory.SyncFunc {
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		if spec, _, _, err := client.GetOperatorState(); err == nil && !guest.Managed(spec) {
			syncCtx.Queue().AddAfter(syncCtx.QueueKey(), managedPoll)
		}
		return WhileManaged(client, sync)(ctx, syncCtx)
	}
}

// Condition is a condition to apply to the object.
type Condition = applyopv1.OperatorConditionApplyConfiguration

// NewCondition returns a complete condition.
func NewCondition(
	conditionType string, status opv1.ConditionStatus, reason, message string,
) *Condition {
	return applyopv1.OperatorCondition().
		WithType(conditionType).WithStatus(status).WithReason(reason).WithMessage(message)
}

// ApplyConditions makes these the conditions of a field manager.
func ApplyConditions(
	ctx context.Context, client v1helpers.OperatorClient, manager string, conditions ...*Condition,
) error {
	status := applyopv1.OperatorStatus().WithConditions(conditions...)
	return client.ApplyOperatorStatus(ctx, manager, status)
}

// StorageClassState returns spec.storageClassState of the object. It returns Managed if the object
// is not in the cache, and an error for an unknown value.
func (c *Cluster) StorageClassState() (opv1.StorageClassStateName, error) {
	return guest.StorageClassState(c.Spec(), c.Object)
}

// Cached returns the object in the cache, nil if there is none.
func (c *Cluster) Cached() *unstructured.Unstructured {
	for _, cached := range c.Operator.Informer().GetStore().List() {
		if object, ok := cached.(*unstructured.Unstructured); ok && object.GetName() != "" {
			return object
		}
	}
	return nil
}

// Spec returns the spec of the object in the cache, nil without an object.
func (c *Cluster) Spec() map[string]any {
	object := c.Cached()
	if object == nil {
		return nil
	}
	if spec, ok := object.Object["spec"].(map[string]any); ok {
		return spec
	}
	return map[string]any{}
}

// Workloads returns the view of workload controllers, which get an error while a value that
// workloads need is invalid or missing.
func (c *Cluster) Workloads(
	client v1helpers.OperatorClientWithFinalizers,
) v1helpers.OperatorClientWithFinalizers {
	return View{
		OperatorClientWithFinalizers: client,
		Spec: func(spec *opv1.OperatorSpec) (*opv1.OperatorSpec, error) {
			return guest.WorkloadSpec(c.Object, spec)
		},
	}
}

// View is the client of a controller that reads or writes something else than other controllers.
type View struct {
	v1helpers.OperatorClientWithFinalizers
	// Spec returns the spec that the controller uses. It must not change its argument. nil stands for
	// no difference, as in the other functions.
	Spec func(*opv1.OperatorSpec) (*opv1.OperatorSpec, error)
	// Status changes the status that the controller reads.
	Status func(*opv1.OperatorStatus)
	// Condition changes a condition before the controller writes it.
	Condition func(context.Context, *Condition)
}

// GetOperatorState returns the spec and the status of the view.
func (v View) GetOperatorState() (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	spec, status, version, err := v.OperatorClientWithFinalizers.GetOperatorState()
	if err == nil && v.Spec != nil {
		spec, err = v.Spec(spec)
	}
	if err != nil {
		return nil, nil, "", err
	}
	if v.Status != nil {
		status = status.DeepCopy()
		v.Status(status)
	}
	return spec, status, version, nil
}

// ApplyOperatorStatus applies the status with the conditions of the view.
func (v View) ApplyOperatorStatus(
	ctx context.Context, manager string, status *applyopv1.OperatorStatusApplyConfiguration,
) error {
	if v.Condition != nil && status != nil {
		for i := range status.Conditions {
			v.Condition(ctx, &status.Conditions[i])
		}
	}
	return v.OperatorClientWithFinalizers.ApplyOperatorStatus(ctx, manager, status)
}
