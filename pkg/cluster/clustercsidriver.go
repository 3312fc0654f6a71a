package cluster

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/genericoperatorclient"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// addOperatorClient creates the client and the informer of the ClusterCSIDriver.
func (c *Cluster) addOperatorClient(o Options) error {
	resource := opv1.GroupVersion.WithResource("clustercsidrivers")
	client, informers, err := genericoperatorclient.NewClusterScopedOperatorClientWithConfigName(
		o.Clock, o.Guest, resource, opv1.GroupVersion.WithKind("ClusterCSIDriver"), o.Driver,
		extractSpec, newStatusExtractor().extract)
	if err != nil {
		return fmt.Errorf("creating client of ClusterCSIDriver %q: %w", o.Driver, err)
	}
	informer := &oneHandlerInformer{SharedIndexInformer: informers.ForResource(resource).Informer()}
	// Both return an error only for a running informer.
	_ = informer.SetTransform(guest.OnlyDriver(o.Driver))
	_, _ = informer.SharedIndexInformer.AddEventHandler(&informer.handlers)
	c.Operator = guest.NewOperator(operatorClient{client, informer}, o.Driver, c.guestSuffix())
	c.AddInformerFactory(informers)
	return nil
}

// operatorClient is an operator client with another informer.
type operatorClient struct {
	v1helpers.OperatorClientWithFinalizers
	informer cache.SharedIndexInformer
}

// Informer returns the informer of the ClusterCSIDriver.
func (c operatorClient) Informer() cache.SharedIndexInformer { return c.informer }

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

// Managed returns true if the operator reconciles; see guest.Managed.
func Managed(client v1helpers.OperatorClient) (bool, error) {
	spec, _, _, err := client.GetOperatorState()
	if err != nil {
		return false, err
	}
	return guest.Managed(spec), nil
}

// WhileManaged returns sync, which does nothing while the operator does not reconcile.
func WhileManaged(client v1helpers.OperatorClient, sync factory.SyncFunc) factory.SyncFunc {
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		if managed, err := Managed(client); err != nil || !managed {
			return err
		}
		return sync(ctx, syncCtx)
	}
}

// Condition is a condition to apply to the ClusterCSIDriver.
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

// StorageClassState returns spec.storageClassState of the ClusterCSIDriver. It returns Managed if
// the ClusterCSIDriver is not in the cache, and an error for an unknown value.
func (c *Cluster) StorageClassState(driver string) (opv1.StorageClassStateName, error) {
	return guest.StorageClassState(c.Operator.Informer().GetStore(), driver, c.guestSuffix())
}

// Workloads returns the client for workload controllers. The client returns an error while a value
// that workloads need is invalid or missing.
func (c *Cluster) Workloads(
	client v1helpers.OperatorClientWithFinalizers, driver string,
) v1helpers.OperatorClientWithFinalizers {
	return guest.Workloads(client, driver, c.guestSuffix())
}

func decode(obj *unstructured.Unstructured) (*opv1.ClusterCSIDriver, error) {
	ret := &opv1.ClusterCSIDriver{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, ret); err != nil {
		return nil, fmt.Errorf("decoding ClusterCSIDriver %q: %w", obj.GetName(), err)
	}
	return ret, nil
}

// extractSpec returns the part of the spec that fieldManager has applied, nil if there is none.
func extractSpec(
	obj *unstructured.Unstructured, fieldManager string,
) (*applyopv1.OperatorSpecApplyConfiguration, error) {
	csiDriver, err := decode(obj)
	if err != nil {
		return nil, err
	}
	applied, err := applyopv1.ExtractClusterCSIDriver(csiDriver, fieldManager)
	if err != nil || applied.Spec == nil {
		return nil, err
	}
	return &applied.Spec.OperatorSpecApplyConfiguration, nil
}

// statusExtractor extracts applied status. It keeps the last result of each field manager:
// controllers apply the same status to an unchanged object at each sync, and every extraction
// decodes the whole object and compares it with its schema.
type statusExtractor struct {
	mutex   sync.Mutex
	results map[string]extractedStatus // by field manager
}

// extractedStatus is the result for one version of an object.
type extractedStatus struct {
	version objectVersion
	status  *applyopv1.OperatorStatusApplyConfiguration
}

// objectVersion identifies a version of an object.
type objectVersion struct {
	uid             types.UID
	resourceVersion string
}

func newStatusExtractor() *statusExtractor {
	return &statusExtractor{results: map[string]extractedStatus{}}
}

// extract returns the part of the status that fieldManager has applied, nil if there is none. The
// caller must not change it.
func (e *statusExtractor) extract(
	obj *unstructured.Unstructured, fieldManager string,
) (*applyopv1.OperatorStatusApplyConfiguration, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	version := objectVersion{obj.GetUID(), obj.GetResourceVersion()}
	if last, found := e.results[fieldManager]; found && last.version == version {
		return last.status, nil
	}
	status, err := extractStatus(obj, fieldManager)
	if err != nil {
		return nil, err
	}
	// The operator client sorts what it gets. Sorted lists stay as they are, also for other readers.
	v1helpers.CanonicalizeOperatorStatus(status)
	e.results[fieldManager] = extractedStatus{version, status}
	return status, nil
}

// extractStatus returns the part of the status that fieldManager has applied, nil if there is none.
func extractStatus(
	obj *unstructured.Unstructured, fieldManager string,
) (*applyopv1.OperatorStatusApplyConfiguration, error) {
	// An invalid spec must not prevent the conditions that report it.
	withoutSpec := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	delete(withoutSpec.Object, "spec")
	csiDriver, err := decode(withoutSpec)
	if err != nil {
		return nil, err
	}
	applied, err := applyopv1.ExtractClusterCSIDriverStatus(csiDriver, fieldManager)
	if err != nil || applied.Status == nil {
		return nil, err
	}
	return &applied.Status.OperatorStatusApplyConfiguration, nil
}
