package sidecar

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// compareInterval is the time after which the object is compared without an event.
	compareInterval = 10 * time.Minute
	// retryInterval is the time between two attempts, for instance while the CRD is missing.
	retryInterval = 10 * time.Second
	// comparesPerSecond and compareBurst limit the requests if another program changes the object.
	comparesPerSecond = 0.5
	compareBurst      = 5
)

// announcer maintains the CSIAddonsNode of the sidecar.
type announcer struct {
	want   *v1alpha1.CSIAddonsNode
	client dynamic.ResourceInterface
	all    dynamic.Interface
	clock  clock.Clock

	metrics *Metrics
}

// resource returns the resource of the announcements.
func resource() schema.GroupVersionResource {
	return v1alpha1.GroupVersion().WithResource("csiaddonsnodes")
}

func newAnnouncer(s *Sidecar, driverName, endpoint, pin string) *announcer {
	pod := s.Settings.Pod
	return &announcer{
		want:   announcement(pod, driverName, endpoint, pin),
		client: s.Dynamic.Resource(resource()).Namespace(pod.Namespace),
		all:    s.Dynamic, clock: s.Clock, metrics: s.Metrics,
	}
}

// announcement returns the CSIAddonsNode of a driver in a pod. Kubernetes deletes it with the pod.
func announcement(pod Pod, driverName, endpoint, pin string) *v1alpha1.CSIAddonsNode {
	node := &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{
			Name: wire.ObjectName(pod.Name, driverName), Namespace: pod.Namespace,
			Annotations: map[string]string{v1alpha1.CreatedByPodUIDAnnotation: pod.UID},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: types.UID(pod.UID)},
			},
		},
		Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
			Name: driverName, EndPoint: endpoint, NodeID: pod.Node,
		}},
	}
	if pin != "" {
		node.Annotations[v1alpha1.CertificatePinAnnotation] = pin
	}
	return node
}

// run maintains the object until ctx is done. It retries while the CRD is missing or the API server
// does not answer.
func (a *announcer) run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	if err := a.watch(ctx, changed); err != nil {
		return err
	}
	log, last := klog.FromContext(ctx), ""
	limiter := rate.NewLimiter(comparesPerSecond, compareBurst)
	for limiter.Wait(ctx) == nil { // until ctx is done
		wait, reason := compareInterval, ""
		err := a.compare(ctx)
		if err != nil {
			wait, reason = retryInterval, err.Error()
		}
		if reason != "" && reason != last {
			log.Info("Failed to write the CSIAddonsNode: trying again", "name", a.want.Name,
				"interval", wait, "reason", reason)
		}
		last = reason
		a.metrics.announce(err)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-a.clock.After(wait):
		}
	}
	return nil
}

// watch sends to changed when the object changes. Without the CRD, the informer tries again until
// somebody installs it.
func (a *announcer) watch(ctx context.Context, changed chan<- struct{}) error {
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // the loop has not handled an earlier change yet
		}
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(a.all, resource(), a.want.Namespace, 0, nil,
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, a.want.Name).String()
		}).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return fmt.Errorf("watching CSIAddonsNodes: %w", err)
	}
	go informer.RunWithContext(ctx)
	return nil
}

// compare creates the object, or makes it equal to what is wanted. An object whose immutable fields
// differ is deleted first. While a finalizer keeps it, the error contains the finalizer, and run
// tries again.
func (a *announcer) compare(ctx context.Context) error {
	object, err := a.client.Get(ctx, a.want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return a.create(ctx)
	}
	if err != nil {
		return fmt.Errorf("reading CSIAddonsNode %s: %w", a.want.Name, err)
	}
	found := &v1alpha1.CSIAddonsNode{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, found); err != nil {
		return fmt.Errorf("decoding CSIAddonsNode %s: %w", a.want.Name, err)
	}
	was, is := found.Spec.Driver, a.want.Spec.Driver
	switch {
	case found.DeletionTimestamp != nil: // the event of its end creates it again
		return fmt.Errorf("CSIAddonsNode %s is being deleted, and finalizers keep it: %.200q",
			found.Name, strings.Join(found.Finalizers, ", "))
	case was.Name != is.Name || was.NodeID != is.NodeID:
		if err := a.remove(ctx, found); err != nil {
			return err
		}
		return a.create(ctx)
	default:
		return a.update(ctx, object, found)
	}
}

func (a *announcer) create(ctx context.Context) error {
	object, err := a.stamped(a.want.DeepCopy())
	if err != nil {
		return err
	}
	_, err = a.client.Create(ctx, object, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("creating CSIAddonsNode %s: the CustomResourceDefinition "+
			"csiaddonsnodes.%s is not installed, or the namespace is gone", a.want.Name, v1alpha1.Group)
	case err != nil:
		return fmt.Errorf("creating CSIAddonsNode %s: %w", a.want.Name, err)
	}
	klog.FromContext(ctx).Info("Created the CSIAddonsNode", "name", a.want.Name,
		"endpoint", a.want.Spec.Driver.EndPoint)
	return nil
}

func (a *announcer) remove(ctx context.Context, found *v1alpha1.CSIAddonsNode) error {
	err := a.client.Delete(ctx, found.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting CSIAddonsNode %s of driver %s on node %s: %w", found.Name,
			found.Spec.Driver.Name, found.Spec.Driver.NodeID, err)
	}
	return nil
}

// update writes what differs, and keeps labels and annotations of other programs.
func (a *announcer) update(ctx context.Context, object *unstructured.Unstructured,
	found *v1alpha1.CSIAddonsNode,
) error {
	wanted := found.DeepCopy()
	wanted.Spec, wanted.OwnerReferences = a.want.Spec, a.want.OwnerReferences
	if wanted.Annotations == nil {
		wanted.Annotations = map[string]string{}
	}
	// Without a pin, an earlier sidecar of the pod may have left one.
	delete(wanted.Annotations, v1alpha1.CertificatePinAnnotation)
	for key, value := range a.want.Annotations {
		wanted.Annotations[key] = value
	}
	if equality.Semantic.DeepEqual(found, wanted) {
		return nil
	}
	changed, err := a.stamped(wanted)
	if err != nil {
		return err
	}
	object.Object["spec"] = changed.Object["spec"]
	object.SetAnnotations(changed.GetAnnotations())
	object.SetOwnerReferences(changed.GetOwnerReferences())
	if _, err := a.client.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating CSIAddonsNode %s: %w", a.want.Name, err)
	}
	klog.FromContext(ctx).Info("Updated the CSIAddonsNode", "name", a.want.Name,
		"endpoint", a.want.Spec.Driver.EndPoint)
	return nil
}

// stamped returns the object to write, with the current time.
func (a *announcer) stamped(node *v1alpha1.CSIAddonsNode) (*unstructured.Unstructured, error) {
	node.Annotations[v1alpha1.LastUpdatedAtAnnotation] = a.clock.Now().UTC().Format(time.RFC3339)
	node.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("CSIAddonsNode"))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(node)
	if err != nil {
		return nil, fmt.Errorf("encoding CSIAddonsNode %s: %w", node.Name, err)
	}
	delete(content, "status") // belongs to the controller
	return &unstructured.Unstructured{Object: content}, nil
}
