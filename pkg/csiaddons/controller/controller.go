// Package controller is the controller of CSI-Addons. It runs the objects of users: it finds the
// sidecars of the driver and calls them. cmd/csi-addons-controller runs it. Its subpackages contain
// one topic each.
package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/guard"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/kinds"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

// requestsPerSecond and requestBurst limit the requests for objects of one kind, so that tenants
// with many objects do not overload the API server. Leader election has a limit of its own.
const requestsPerSecond, requestBurst = 100, 200

// Controller is the program.
type Controller struct {
	Settings *settings.Settings
	Config   *rest.Config
	Metrics  *metrics.Metrics
}

// Run runs the controller until ctx is done. It serves metrics and health, and follows the
// ConfigMap, at all times. The operations run in a second manager, which exists only while no other
// controller of CSI-Addons runs in the cluster.
func (c *Controller) Run(ctx context.Context) error {
	config := rest.CopyConfig(c.Config)
	config.QPS, config.Burst = requestsPerSecond, requestBurst
	known, err := kinds.NewScheme()
	if err != nil {
		return err
	}
	cluster, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("creating the discovery client: %w", err)
	}
	others, err := otherNamespaces(cluster, c.Settings)
	if err != nil {
		return err
	}
	outer, err := manager.New(config, c.outerOptions(known, others))
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := c.addHealth(outer); err != nil {
		return err
	}
	live := settings.NewLive(c.Settings.Options)
	follower := &follower{
		client: outer.GetClient(), live: live, namespace: c.Settings.Namespace,
		events: outer.GetEventRecorder(eventSource),
	}
	err = builder.ControllerManagedBy(outer).Named("options").For(&corev1.ConfigMap{}).
		Complete(follower)
	if err != nil {
		return fmt.Errorf("following ConfigMap %s: %w", settings.ConfigMap, err)
	}
	s := &supervisor{
		Controller: c, outer: outer, config: config, scheme: known, live: live, options: follower,
		events: outer.GetEventRecorder(eventSource),
		guard: &guard.Guard{
			Cache: outer.GetCache(), Own: c.Settings.Namespace, Clock: clock.RealClock{},
		},
	}
	if err := outer.Add(s); err != nil {
		return fmt.Errorf("adding the operations: %w", err)
	}
	return outer.Start(ctx)
}

// outerOptions returns the options of the manager that follows the ConfigMap, and other controllers
// in namespaces.
func (c *Controller) outerOptions(known *runtime.Scheme, others map[string]cache.Config,
) manager.Options {
	named := func(name string) fields.Selector {
		return fields.OneTermEqualSelector("metadata.name", name)
	}
	options := metricsserver.Options{BindAddress: c.Settings.MetricsAddress}
	if c.Settings.SecureMetrics {
		options.SecureServing = true
		options.FilterProvider = checkedMetrics
	}
	return manager.Options{
		Scheme: known, Metrics: options, HealthProbeBindAddress: c.Settings.ProbeAddress,
		GracefulShutdownTimeout: ptr.To(shutdownTimeout),
		Controller:              ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {
				Namespaces: map[string]cache.Config{c.Settings.Namespace: {}},
				Field:      named(settings.ConfigMap),
			},
			&coordinationv1.Lease{}: {Namespaces: others, Field: named(guard.LeaseName)},
			&appsv1.Deployment{}:    {Namespaces: others, Field: named(guard.DeploymentName)},
		}},
	}
}

func (*Controller) addHealth(m manager.Manager) error {
	for name, add := range map[string]func(string, healthz.Checker) error{
		"healthz": m.AddHealthzCheck, "readyz": m.AddReadyzCheck,
	} {
		if err := add("ping", healthz.Ping); err != nil {
			return fmt.Errorf("adding %s: %w", name, err)
		}
	}
	return nil
}
