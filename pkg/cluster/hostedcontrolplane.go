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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// AvailabilityPolicy is the availability policy of a hosted control plane.
type AvailabilityPolicy string

// The availability policies of https://github.com/openshift/hypershift, api/hypershift/v1beta1.
const (
	SingleReplica   AvailabilityPolicy = "SingleReplica"
	HighlyAvailable AvailabilityPolicy = "HighlyAvailable"
)

// HostedControlPlane is the part of a hypershift.openshift.io/v1beta1 HostedControlPlane that
// operators read. HyperShift's module with the complete Go types needs the libraries of all clouds.
type HostedControlPlane struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec HostedControlPlaneSpec `json:"spec"`
}

// HostedControlPlaneSpec defines how the pods of the control plane run.
type HostedControlPlaneSpec struct {
	// NodeSelector replaces the node selector of a workload.
	NodeSelector map[string]string `json:"nodeSelector"`
	// Tolerations are added to the tolerations of a workload.
	Tolerations []corev1.Toleration `json:"tolerations"`
	// Labels are added to pods, unless the pods have them.
	Labels map[string]string `json:"labels"`
	// ControllerAvailabilityPolicy defaults to SingleReplica, as in the API.
	ControllerAvailabilityPolicy AvailabilityPolicy `json:"controllerAvailabilityPolicy"`
}

// HostedControlPlanes returns the resource of HostedControlPlanes.
func HostedControlPlanes() schema.GroupVersionResource {
	return schema.GroupVersionResource{
		Group: "hypershift.openshift.io", Version: "v1beta1", Resource: "hostedcontrolplanes",
	}
}

// HostedControlPlaneInformer watches the HostedControlPlanes of a namespace.
type HostedControlPlaneInformer struct {
	cache.SharedIndexInformer
	// listError is the last persistent error of the API server, if any.
	listError atomic.Pointer[apierrors.StatusError]
}

func newHostedControlPlanes(client dynamic.Interface,
	namespace string,
) *HostedControlPlaneInformer {
	i := &HostedControlPlaneInformer{
		SharedIndexInformer: dynamicinformer.NewFilteredDynamicInformer(client,
			HostedControlPlanes(), namespace, 0, cache.Indexers{}, nil).Informer(),
	}
	// Both return an error only for a running informer.
	_ = i.SetTransform(withoutStatus)
	_ = i.SetWatchErrorHandlerWithContext(i.handleWatchError)
	return i
}

// Start runs the informer until stop is closed.
func (i *HostedControlPlaneInformer) Start(stop <-chan struct{}) { go i.Run(stop) }

// handleWatchError records an error that retries do not fix: missing RBAC, or a missing resource.
func (i *HostedControlPlaneInformer) handleWatchError(
	ctx context.Context, r *cache.Reflector, err error,
) {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if ok && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		i.listError.Store(status)
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// HasSynced also returns true after a persistent error, so that controllers start and report it.
func (i *HostedControlPlaneInformer) HasSynced() bool {
	return i.SharedIndexInformer.HasSynced() || i.listError.Load() != nil
}

// initialListError returns the error that prevents the first list. Later errors leave the cache
// unchanged and do not count.
func (i *HostedControlPlaneInformer) initialListError() error {
	if status := i.listError.Load(); status != nil && !i.SharedIndexInformer.HasSynced() {
		return status
	}
	return nil
}

// withoutStatus is a transform that saves memory.
func withoutStatus(obj any) (any, error) {
	if object, ok := obj.(*unstructured.Unstructured); ok {
		delete(object.Object, "status")
	}
	return guest.DropUnused(obj)
}

// HostedControlPlane returns the operator's HostedControlPlane from the cache. It is for HyperShift
// only. It returns an error unless there is exactly one and it is not being deleted.
func (c *Cluster) HostedControlPlane() (*HostedControlPlane, error) {
	place := fmt.Sprintf("namespace %s of the management cluster", c.Namespaces.ControlPlane)
	if err := c.HostedControlPlanes.initialListError(); err != nil {
		return nil, fmt.Errorf("reading HostedControlPlanes in %s: %w: Deployments stay unchanged; "+
			"check the operator's Role there, and the CustomResourceDefinition of HyperShift", place, err)
	}
	switch found := c.HostedControlPlanes.GetStore().List(); len(found) {
	case 0:
		return nil, fmt.Errorf("no HostedControlPlane is in %s: Deployments stay unchanged until there "+
			"is one; remove an operator that was left behind", place)
	case 1:
		hosted, err := decodeHostedControlPlane(found[0])
		if err != nil {
			return nil, fmt.Errorf("decoding the HostedControlPlane in %s: %w: Deployments stay unchanged "+
				"until it is fixed", place, err)
		}
		if hosted.DeletionTimestamp != nil {
			return nil, fmt.Errorf("HostedControlPlane %s in %s is being deleted: Deployments stay "+
				"unchanged until they are deleted too", hosted.Name, place)
		}
		return hosted, nil
	default:
		return nil, fmt.Errorf("%d HostedControlPlanes are in %s (%s), where one is expected: "+
			"Deployments stay unchanged; delete all others", len(found), place, namesOf(found))
	}
}

func decodeHostedControlPlane(obj any) (*HostedControlPlane, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("the cache contains a %T", obj)
	}
	text, err := object.MarshalJSON()
	hosted := &HostedControlPlane{}
	if err == nil {
		// Unlike the errors of apimachinery's converter, this error names the invalid field.
		err = json.Unmarshal(text, hosted)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object.GetName(), err)
	}
	hosted.Spec.ControllerAvailabilityPolicy = cmp.Or(hosted.Spec.ControllerAvailabilityPolicy,
		SingleReplica)
	return hosted, nil
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
