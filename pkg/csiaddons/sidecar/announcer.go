package sidecar

import (
	"context"
	"fmt"
	"net"
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
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// applyInterval is the time after which the object is applied without an event.
	applyInterval = 10 * time.Minute
	// retryInterval is the time between two attempts, for instance while the CRD is missing.
	retryInterval = 10 * time.Second
	// The sidecar reacts to eventBurst events at once, and then to one in eventInterval. So it does
	// not fight for the object with a program that deletes or changes it again and again. A repair
	// causes two events.
	eventInterval = 5 * time.Minute
	eventBurst    = 20
)

// announcer maintains the CSIAddonsNode of the sidecar.
type announcer struct {
	want    *unstructured.Unstructured
	dynamic dynamic.Interface
	metrics *Metrics
}

func resource() schema.GroupVersionResource {
	return v1alpha1.GroupVersion().WithResource("csiaddonsnodes")
}

// newAnnouncer prepares the CSIAddonsNode of a driver in a pod. Kubernetes deletes it with the pod.
func newAnnouncer(p *Program, driverName string, address *net.TCPAddr, pin string) *announcer {
	pod := p.Settings.Pod
	endpoint := wire.Endpoint{
		Pod: pod.Name, Namespace: pod.Namespace, Port: address.AddrPort().Port(),
	}.String()
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
		v1alpha1.LastUpdatedAtAnnotation:   time.Now().UTC().Format(time.RFC3339),
	}
	if pin != "" {
		annotations[v1alpha1.CertificatePinAnnotation] = pin
	}
	want.SetAnnotations(annotations)
	return &announcer{want: want, dynamic: p.Dynamic, metrics: p.Metrics}
}

// run maintains the object until ctx is done. It retries while the CRD is missing or the API server
// does not answer.
func (a *announcer) run(ctx context.Context) {
	log, last := klog.FromContext(ctx), ""
	changed, events := a.watch(ctx), rate.NewLimiter(rate.Every(eventInterval), eventBurst)
	for ctx.Err() == nil {
		wait, reason := applyInterval, ""
		err := a.apply(ctx)
		if err != nil {
			wait, reason = retryInterval, err.Error()
		}
		if reason != "" && reason != last {
			log.Info("Failed to write the CSIAddonsNode: trying again", "name", a.want.GetName(),
				"interval", wait, "reason", reason)
		}
		last = reason
		a.metrics.announce(err)
		select {
		case <-ctx.Done():
		case <-changed:
			_ = events.Wait(ctx) // an error means that ctx is done
		case <-time.After(wait):
		}
	}
}

// watch returns a channel that receives a value after the object has changed. Without the CRD, the
// informer tries again until somebody installs it.
func (a *announcer) watch(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	notify := func(any) {
		select {
		case changed <- struct{}{}:
		default: // the loop has not handled an earlier change yet
		}
	}
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, a.want.GetName()).String()
	informer := dynamicinformer.NewFilteredDynamicInformer(a.dynamic, resource(),
		a.want.GetNamespace(), 0, nil, func(o *metav1.ListOptions) { o.FieldSelector = name }).Informer()
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only after its end
		AddFunc: notify, UpdateFunc: func(_, _ any) { notify(nil) }, DeleteFunc: notify,
	})
	go informer.RunWithContext(ctx)
	return changed
}

// apply creates or repairs the object, and keeps labels and annotations of other programs. It
// deletes an object whose immutable fields differ.
func (a *announcer) apply(ctx context.Context) error {
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
			return fmt.Errorf("replacing CSIAddonsNode %s of another driver or node, which finalizers "+
				"may keep: %w", name, err)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("applying CSIAddonsNode %s: the CustomResourceDefinition "+
			"csiaddonsnodes.%s is not installed, or the namespace is gone", name, v1alpha1.Group)
	case err != nil:
		return fmt.Errorf("applying CSIAddonsNode %s: %w", name, err)
	case applied.GetDeletionTimestamp() != nil: // the event of its end creates it again
		return fmt.Errorf("CSIAddonsNode %s is being deleted, and finalizers keep it: %.200q", name,
			strings.Join(applied.GetFinalizers(), ", "))
	}
	return nil
}
