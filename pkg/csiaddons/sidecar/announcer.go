package sidecar

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// applyInterval is the time after which the object is applied without an event.
	applyInterval = 10 * time.Minute
	// retryInterval is the time between two attempts, for instance while the CRD is missing.
	retryInterval = 10 * time.Second
	// appliesPerSecond and applyBurst limit the requests if another program changes the object.
	appliesPerSecond = 0.5
	applyBurst       = 5
	// If another program deletes the object within lasting, the sidecar creates it again at once.
	// Each time that this repeats, it waits twice as long, from firstDelay to lastDelay.
	lasting    = 10 * time.Minute
	firstDelay = 5 * time.Second
	lastDelay  = 5 * time.Minute
)

// announcer maintains the CSIAddonsNode of the sidecar.
type announcer struct {
	want    *unstructured.Unstructured
	dynamic dynamic.Interface
	clock   clock.Clock
	metrics *Metrics
	// uid is that of the object, and since is when the sidecar applied this object first.
	uid    types.UID
	since  time.Time
	delays workqueue.TypedRateLimiter[string]
}

// resource returns the resource of the announcements.
func resource() schema.GroupVersionResource {
	return v1alpha1.GroupVersion().WithResource("csiaddonsnodes")
}

// newAnnouncer prepares the CSIAddonsNode of a driver in a pod. Kubernetes deletes it with the pod.
func newAnnouncer(s *Sidecar, driverName, endpoint, pin string) *announcer {
	pod := s.Settings.Pod
	want := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"driver": map[string]any{"name": driverName, "endpoint": endpoint, "nodeID": pod.Node},
	}}}
	want.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("CSIAddonsNode"))
	want.SetName(wire.ObjectName(pod.Name, driverName))
	want.SetNamespace(pod.Namespace)
	want.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: types.UID(pod.UID)},
	})
	annotations := map[string]string{
		v1alpha1.CreatedByPodUIDAnnotation: pod.UID,
		v1alpha1.LastUpdatedAtAnnotation:   s.Clock.Now().UTC().Format(time.RFC3339),
	}
	if pin != "" {
		annotations[v1alpha1.CertificatePinAnnotation] = pin
	}
	want.SetAnnotations(annotations)
	return &announcer{
		want: want, dynamic: s.Dynamic, clock: s.Clock, metrics: s.Metrics,
		delays: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstDelay, lastDelay),
	}
}

// run maintains the object until ctx is done. It retries while the CRD is missing or the API server
// does not answer.
func (a *announcer) run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	if err := a.watch(ctx, changed); err != nil {
		return err
	}
	log, last := klog.FromContext(ctx), ""
	limiter := rate.NewLimiter(appliesPerSecond, applyBurst)
	for limiter.Wait(ctx) == nil { // until ctx is done
		events, wait, reason := changed, applyInterval, ""
		delay, err := a.apply(ctx)
		switch {
		case err != nil:
			wait, reason = retryInterval, err.Error()
		case delay > 0:
			events, wait = nil, delay
		}
		if reason != "" && reason != last {
			log.Info("Failed to write the CSIAddonsNode: trying again", "name", a.want.GetName(),
				"interval", wait, "reason", reason)
		}
		last = reason
		a.metrics.announce(err)
		select {
		case <-ctx.Done():
		case <-events:
		case <-a.clock.After(wait):
		}
	}
	return nil
}

// watch sends to changed when the object changes. Without the CRD, the informer tries again until
// somebody installs it.
func (a *announcer) watch(ctx context.Context, changed chan<- struct{}) error {
	notify := func(any) {
		select {
		case changed <- struct{}{}:
		default: // the loop has not handled an earlier change yet
		}
	}
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, a.want.GetName()).String()
	informer := dynamicinformer.NewFilteredDynamicInformer(a.dynamic, resource(),
		a.want.GetNamespace(), 0, nil, func(o *metav1.ListOptions) { o.FieldSelector = name }).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(_, _ any) { notify(nil) }, DeleteFunc: notify,
	})
	if err != nil {
		return fmt.Errorf("watching CSIAddonsNodes: %w", err)
	}
	go informer.RunWithContext(ctx)
	return nil
}

// apply creates or repairs the object, and keeps labels and annotations of other programs. It
// deletes an object whose immutable fields differ. It returns how long to wait before it may create
// the object again.
func (a *announcer) apply(ctx context.Context) (time.Duration, error) {
	name := a.want.GetName()
	client := a.dynamic.Resource(resource()).Namespace(a.want.GetNamespace())
	options := metav1.ApplyOptions{FieldManager: "csi-addons-sidecar", Force: true}
	applied, err := client.Apply(ctx, name, a.want, options)
	if apierrors.IsInvalid(err) {
		err = client.Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			applied, err = client.Apply(ctx, name, a.want, options)
		}
		if err != nil {
			return 0, fmt.Errorf("replacing CSIAddonsNode %s of another driver or node, which finalizers "+
				"may keep: %w", name, err)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return 0, fmt.Errorf("applying CSIAddonsNode %s: the CustomResourceDefinition "+
			"csiaddonsnodes.%s is not installed, or the namespace is gone", name, v1alpha1.Group)
	case err != nil:
		return 0, fmt.Errorf("applying CSIAddonsNode %s: %w", name, err)
	case applied.GetDeletionTimestamp() != nil: // the event of its end creates it again
		return 0, fmt.Errorf("CSIAddonsNode %s is being deleted, and finalizers keep it: %.200q", name,
			strings.Join(applied.GetFinalizers(), ", "))
	}
	return a.delay(ctx, applied.GetUID()), nil
}

// delay returns how long to wait after the object with a UID was applied.
func (a *announcer) delay(ctx context.Context, uid types.UID) time.Duration {
	if uid == a.uid {
		return 0
	}
	klog.FromContext(ctx).Info("Published the CSIAddonsNode", "name", a.want.GetName())
	early := a.uid != "" && a.clock.Since(a.since) < lasting
	a.uid, a.since = uid, a.clock.Now()
	if early {
		return a.delays.When(a.want.GetName())
	}
	a.delays.Forget(a.want.GetName())
	return 0
}
