package controller

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

// eventSource is the component in events.
const eventSource = "csi-addons-controller"

// follower applies the options of the ConfigMap when it changes.
type follower struct {
	client    client.Reader
	live      *settings.Live
	namespace string
	events    events.EventRecorder
}

// Reconcile applies the options. Without the ConfigMap the flags apply.
func (f *follower) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	found := &corev1.ConfigMap{}
	name := client.ObjectKey{Namespace: f.namespace, Name: settings.ConfigMap}
	if err := f.client.Get(ctx, name, found); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if warnings := strings.Join(f.live.Apply(found.Data), "; "); warnings != "" {
		log.FromContext(ctx).Info("Ignoring options of the ConfigMap", "reason", warnings)
		f.events.Eventf(found, nil, corev1.EventTypeWarning, "InvalidOption", "Apply", "Ignored: %.900s",
			warnings)
	}
	return reconcile.Result{}, nil
}
