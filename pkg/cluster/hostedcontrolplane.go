package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// AvailabilityPolicy says how many failures a hosted control plane is to survive.
type AvailabilityPolicy string

// The availability policies of https://github.com/openshift/hypershift, api/hypershift/v1beta1.
const (
	SingleReplica   AvailabilityPolicy = "SingleReplica"
	HighlyAvailable AvailabilityPolicy = "HighlyAvailable"
)

// HostedControlPlane is the part of a hypershift.openshift.io/v1beta1 HostedControlPlane that the operators follow. Its Go types
// are in a module that would bring the dependencies of all clouds along.
type HostedControlPlane struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec HostedControlPlaneSpec `json:"spec"`
}

// HostedControlPlaneSpec is how the pods of the control plane are to be.
type HostedControlPlaneSpec struct {
	// NodeSelector replaces a workload's own.
	NodeSelector map[string]string `json:"nodeSelector"`
	// Tolerations are added to a workload's own.
	Tolerations []corev1.Toleration `json:"tolerations"`
	// Labels are for pods which do not have them already.
	Labels map[string]string `json:"labels"`
	// ControllerAvailabilityPolicy is SingleReplica unless given, as in the API.
	ControllerAvailabilityPolicy AvailabilityPolicy `json:"controllerAvailabilityPolicy"`
}

// HostedControlPlanes is the resource.
func HostedControlPlanes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "hypershift.openshift.io", Version: "v1beta1", Resource: "hostedcontrolplanes"}
}

// HostedControlPlaneInformer informs of the HostedControlPlanes of a namespace.
type HostedControlPlaneInformer struct {
	cache.SharedIndexInformer
	// refusal is the API server's last, if any.
	refusal atomic.Pointer[apierrors.StatusError]
}

func newHostedControlPlanes(client dynamic.Interface, namespace string) *HostedControlPlaneInformer {
	i := &HostedControlPlaneInformer{
		SharedIndexInformer: dynamicinformer.NewFilteredDynamicInformer(client, HostedControlPlanes(), namespace, 0, cache.Indexers{}, nil).Informer(),
	}
	// Both fail only for an informer that runs already.
	_ = i.SetTransform(withoutStatus)
	_ = i.SetWatchErrorHandlerWithContext(i.failed)
	return i
}

// failed remembers an error that does not pass by itself: there are no rights, or no such resource.
func (i *HostedControlPlaneInformer) failed(ctx context.Context, r *cache.Reflector, err error) {
	var status *apierrors.StatusError
	if (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) && errors.As(err, &status) {
		i.refusal.Store(status)
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// HasSynced is true also when the API server has refused: who waited then hears why, instead of waiting for ever.
func (i *HostedControlPlaneInformer) HasSynced() bool {
	return i.SharedIndexInformer.HasSynced() || i.refusal.Load() != nil
}

// refused is why there is no word of the API server yet, nil if there is one: later refusals leave the cache as it is.
func (i *HostedControlPlaneInformer) refused() error {
	if status := i.refusal.Load(); status != nil && !i.SharedIndexInformer.HasSynced() {
		return status
	}
	return nil
}

// withoutStatus keeps what nobody asks for out of memory.
func withoutStatus(obj any) (any, error) {
	if object, ok := obj.(*unstructured.Unstructured); ok {
		delete(object.Object, "status")
	}
	return withoutManagedFields(obj)
}

// HostedControlPlane returns the one that the operator belongs to, from the cache; HyperShift only. There not being exactly one is an
// error, and so is its deletion: what it asks for no longer counts.
func (c *Cluster) HostedControlPlane() (*HostedControlPlane, error) {
	place := fmt.Sprintf("namespace %s of the management cluster", c.Namespaces.ControlPlane)
	if err := c.HostedControlPlanes.refused(); err != nil {
		return nil, fmt.Errorf("reading HostedControlPlanes in %s: %w: Deployments stay as they are; "+
			"look at the operator's Role there, and for the CustomResourceDefinition of HyperShift", place, err)
	}
	switch found := c.HostedControlPlanes.GetStore().List(); len(found) {
	case 0:
		return nil, fmt.Errorf("no HostedControlPlane is in %s: Deployments stay as they are until there is one again; "+
			"an operator that was left behind is to be removed", place)
	case 1:
		hosted, err := decodeHostedControlPlane(found[0])
		if err != nil {
			return nil, fmt.Errorf("decoding the HostedControlPlane in %s: %w: Deployments stay as they are until it is corrected", place, err)
		}
		if hosted.DeletionTimestamp != nil {
			return nil, fmt.Errorf("HostedControlPlane %s in %s is being deleted: Deployments stay as they are until they go with it", hosted.Name, place)
		}
		return hosted, nil
	default:
		return nil, fmt.Errorf("%d HostedControlPlanes are in %s (%s), where one is expected: Deployments stay as they are; "+
			"delete those that do not belong there", len(found), place, namesOf(found))
	}
}

func decodeHostedControlPlane(obj any) (*HostedControlPlane, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("the cache holds a %T", obj)
	}
	text, err := object.MarshalJSON()
	hosted := &HostedControlPlane{}
	if err == nil {
		// Unlike apimachinery's converter it names the field that is wrong.
		err = json.Unmarshal(text, hosted)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object.GetName(), err)
	}
	if err := hosted.Spec.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", object.GetName(), err)
	}
	hosted.Spec.ControllerAvailabilityPolicy = cmp.Or(hosted.Spec.ControllerAvailabilityPolicy, SingleReplica)
	return hosted, nil
}

// validate finds what the API server would otherwise refuse in the Deployment, where nobody could correct it.
func (s HostedControlPlaneSpec) validate() error {
	spec := field.NewPath("spec")
	faults := append(validation.ValidateLabels(s.Labels, spec.Child("labels")), validation.ValidateLabels(s.NodeSelector, spec.Child("nodeSelector"))...)
	slices.SortFunc(faults, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	return faults.ToAggregate()
}

func namesOf(objects []any) string {
	var names []string
	for _, obj := range objects {
		if object, ok := obj.(metav1.Object); ok {
			names = append(names, object.GetName())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
