package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/genericoperatorclient"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// operatorClient is the client of the ClusterCSIDriver. It differs from library-go's, which it
// contains, in what it reads and how it writes the status:
//   - It returns only values that pkg/guest has checked.
//   - It returns its own writes of the status before the cache contains them.
//   - It completes conditions, and writes no condition twice.
type operatorClient struct {
	v1helpers.OperatorClientWithFinalizers
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
	resource dynamic.ResourceInterface
	clock    clock.PassiveClock
	// kind and name are those of the object, and object is both in messages.
	kind         schema.GroupVersionKind
	name, object string
	// complete adds to the spec what no observer writes there.
	complete func(*opv1.OperatorSpec)

	mu sync.Mutex
	// applied is the last result of appliedBy of each field manager: controllers apply the same status
	// to an unchanged object at each sync, and the result needs the whole object and its schema.
	applied map[string]appliedStatus
	// written is the response to the last write of the status, nil once the cache contains it.
	written *unstructured.Unstructured
}

// appliedStatus is what a field manager has applied to one version of the ClusterCSIDriver.
type appliedStatus struct {
	version string
	status  *applyopv1.OperatorStatusApplyConfiguration
}

func (c *Cluster) addOperatorClient(o Options) error {
	resource, _ := meta.UnsafeGuessKindToResource(o.Kind)
	client, informers, err := genericoperatorclient.NewClusterScopedOperatorClientWithConfigName(
		o.Clock, o.Guest, resource, o.Kind, o.Driver, neverApplied, extractStatus)
	if err != nil {
		return fmt.Errorf("creating client of %s: %w", c.Object, err)
	}
	generic := informers.ForResource(resource)
	informer := &oneHandlerInformer{SharedIndexInformer: generic.Informer()}
	// Both return an error only for a running informer.
	_ = informer.SetTransform(guest.OnlyDriver(o.Driver))
	_, _ = informer.SharedIndexInformer.AddEventHandler(&informer.handlers)
	c.Operator = &operatorClient{
		OperatorClientWithFinalizers: client, informer: informer, lister: generic.Lister(),
		resource: c.guest.Dynamic.Resource(resource), clock: o.Clock,
		kind: o.Kind, name: o.Driver, object: c.Object, applied: map[string]appliedStatus{},
		complete: c.Config.Complete,
	}
	c.AddInformerFactory(informers)
	return nil
}

// neverApplied returns no spec: no controller applies one.
func neverApplied(
	*unstructured.Unstructured, string,
) (*applyopv1.OperatorSpecApplyConfiguration, error) {
	return nil, nil
}

// Informer returns the informer of the ClusterCSIDriver.
func (c *operatorClient) Informer() cache.SharedIndexInformer { return c.informer }

// GetOperatorState returns the spec and the version in the cache, and the newest status that is
// known. The spec is checked: see guest.Spec.
func (c *operatorClient) GetOperatorState() (
	*opv1.OperatorSpec, *opv1.OperatorStatus, string, error,
) {
	cached, newest, err := c.known()
	if err != nil {
		return nil, nil, "", err
	}
	return c.state(cached, newest)
}

// GetOperatorStateWithQuorum reads the state from the API server.
func (c *operatorClient) GetOperatorStateWithQuorum(ctx context.Context) (
	*opv1.OperatorSpec, *opv1.OperatorStatus, string, error,
) {
	read, err := c.resource.Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, "", err
	}
	return c.state(read, read)
}

func (c *operatorClient) state(withSpec, withStatus *unstructured.Unstructured) (
	*opv1.OperatorSpec, *opv1.OperatorStatus, string, error,
) {
	spec, err := guest.Spec(c.object, withSpec.Object["spec"])
	if err != nil {
		return nil, nil, "", err
	}
	c.complete(spec)
	driver, err := decode(withStatus, "spec", "metadata")
	if err != nil {
		return nil, nil, "", err
	}
	return spec, &driver.Status.OperatorStatus, withSpec.GetResourceVersion(), nil
}

// known returns the ClusterCSIDriver in the cache, and the newest one. They differ until the cache
// contains the last write of the status.
func (c *operatorClient) known() (cached, newest *unstructured.Unstructured, err error) {
	found, err := c.lister.Get(c.name)
	if err != nil {
		return nil, nil, err
	}
	cached, ok := found.(*unstructured.Unstructured)
	if !ok {
		return nil, nil, fmt.Errorf("the cache of %s contains a %T", c.object, found)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !isNewer(c.written, cached) {
		c.written = nil
		return cached, cached, nil
	}
	return cached, c.written, nil
}

// isNewer reports whether a is a later version of the same object as b. nil is never newer.
func isNewer(a, b *unstructured.Unstructured) bool {
	if a == nil || a.GetUID() != b.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(
		a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// ApplyOperatorStatus applies the status unless it is applied already. A condition keeps its
// transition time while its status is the same.
func (c *operatorClient) ApplyOperatorStatus(
	ctx context.Context, manager string, status *applyopv1.OperatorStatusApplyConfiguration,
) error {
	if status == nil {
		return errors.New("there is no status to apply")
	}
	if !CompleteStatus(status) {
		return nil
	}
	before, err := c.appliedBy(manager)
	if err != nil {
		return err
	}
	v1helpers.SetApplyConditionsLastTransitionTime(c.clock, &status.Conditions, before.Conditions)
	v1helpers.CanonicalizeOperatorStatus(status)
	if equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", c.object, err)
	}
	desired := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	desired.SetGroupVersionKind(c.kind)
	desired.SetName(c.name)
	written, err := c.resource.ApplyStatus(ctx, c.name, desired,
		metav1.ApplyOptions{Force: true, FieldManager: manager})
	if err != nil {
		return fmt.Errorf("writing the status of %s: %w", c.object, err)
	}
	return c.remember(written)
}

// appliedBy returns the status that a field manager has applied, an empty one if there is none. The
// caller must not change it.
func (c *operatorClient) appliedBy(
	manager string,
) (*applyopv1.OperatorStatusApplyConfiguration, error) {
	_, newest, err := c.known()
	if apierrors.IsNotFound(err) {
		return applyopv1.OperatorStatus(), nil
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	version := string(newest.GetUID()) + "/" + newest.GetResourceVersion()
	if last := c.applied[manager]; last.version == version {
		return last.status, nil
	}
	status, err := extractStatus(newest, manager)
	if err != nil {
		return nil, err
	}
	if status == nil {
		status = applyopv1.OperatorStatus()
	}
	v1helpers.CanonicalizeOperatorStatus(status)
	c.applied[manager] = appliedStatus{version, status}
	return status, nil
}

// remember stores the response to a write, with the changes that the informer makes.
func (c *operatorClient) remember(written *unstructured.Unstructured) error {
	changed, err := guest.OnlyDriver(c.name)(written)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if object, ok := changed.(*unstructured.Unstructured); ok && !isNewer(c.written, object) {
		c.written = object
	}
	return nil
}

// decode decodes an object without some fields: an invalid spec must not prevent the conditions
// that report it.
func decode(obj *unstructured.Unstructured, without ...string) (*opv1.ClusterCSIDriver, error) {
	ret := &opv1.ClusterCSIDriver{}
	content := maps.Clone(obj.Object)
	for _, field := range without {
		delete(content, field)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, ret); err != nil {
		return nil, fmt.Errorf("decoding %s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return ret, nil
}

// extractStatus returns the part of the status that fieldManager has applied, nil if there is none.
func extractStatus(
	obj *unstructured.Unstructured, fieldManager string,
) (*applyopv1.OperatorStatusApplyConfiguration, error) {
	csiDriver, err := decode(obj, "spec")
	if err != nil {
		return nil, err
	}
	applied, err := applyopv1.ExtractClusterCSIDriverStatus(csiDriver, fieldManager)
	if err != nil || applied.Status == nil {
		return nil, err
	}
	return &applied.Status.OperatorStatusApplyConfiguration, nil
}
