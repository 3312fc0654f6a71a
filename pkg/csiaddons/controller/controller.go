// Package controller is the controller of CSI-Addons. It runs the objects of users: it finds the
// sidecars of the driver and calls them. cmd/csi-addons-controller runs it. Jobs runs
// ReclaimSpaceJobs, CronJobs creates them, and Claims creates ReclaimSpaceCronJobs by annotations.
package controller

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/fence"
)

const (
	// requestsPerSecond and requestBurst limit the requests for objects of one kind, so that tenants
	// with many objects do not overload the API server. Leader election has a limit of its own.
	requestsPerSecond, requestBurst = 100, 200
	// shutdownTimeout is how long calls may take to end after they are cancelled.
	shutdownTimeout = 30 * time.Second
	// leaseName is the name of the Lease of the controller.
	leaseName = "csi-addons-openstack"
	// eventSource is the component in events.
	eventSource = "csi-addons-controller"
	// lostBuffer is how many lost connections can wait for the manager.
	lostBuffer = 1024
)

// Controller is the program.
type Controller struct {
	Settings *Settings
	Config   *rest.Config
	Metrics  *connection.Metrics
}

// Run runs the controller until ctx is done, or its options change. It returns an error if it may
// not run, for example because another controller of CSI-Addons runs in the cluster.
func (c *Controller) Run(ctx context.Context) error {
	config := rest.CopyConfig(c.Config)
	config.QPS, config.Burst = requestsPerSecond, requestBurst
	known, err := NewScheme()
	if err != nil {
		return err
	}
	live, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		return fmt.Errorf("creating the client: %w", err)
	}
	cluster, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("creating the discovery client: %w", err)
	}
	checks := &preflight{settings: c.Settings, client: live, cluster: cluster}
	err = checks.await(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	given, err := readOptions(ctx, live, c.Settings.Namespace)
	if err != nil {
		return err
	}
	options, _ := c.Settings.Options.with(given.Data) // the reconciler of options reports warnings
	tokens, err := c.newTokens(ctx, config, live)
	if err != nil {
		return err
	}
	managed := c.managerOptions(checks.served)
	managed.Scheme = known
	m, err := manager.New(config, managed)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.addServers(m, checks, options, cancel); err != nil {
		return err
	}
	lost := make(connection.Names, lostBuffer)
	pool := connection.NewPool(tokens, c.Metrics, live, func(name types.NamespacedName) {
		lost.Send(ctx, name)
	})
	defer pool.CloseAll()
	if err := c.addReconcilers(ctx, m, options, pool, lost); err != nil {
		return err
	}
	return m.Start(ctx)
}

func (c *Controller) managerOptions(namespaces []string) manager.Options {
	metrics := metricsserver.Options{BindAddress: c.Settings.MetricsAddress}
	if c.Settings.SecureMetrics {
		metrics.SecureServing = true
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return manager.Options{
		Metrics: metrics, HealthProbeBindAddress: c.Settings.ProbeAddress,
		GracefulShutdownTimeout: ptr.To(shutdownTimeout),
		LeaderElection:          c.Settings.LeaderElect, LeaderElectionID: leaseName,
		LeaderElectionNamespace:       c.Settings.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &c.Settings.LeaseDuration,
		RenewDeadline:                 &c.Settings.RenewDeadline,
		RetryPeriod:                   &c.Settings.RetryPeriod,
		Controller:                    ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
		Cache:                         cacheOptions(c.Settings.Namespace, namespaces),
	}
}

// newTokens returns the source of tokens for sidecars. The tokens end with the pod of the
// controller.
func (c *Controller) newTokens(ctx context.Context, config *rest.Config, live client.Reader,
) (*connection.Tokens, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of Kubernetes: %w", err)
	}
	tokens := &connection.Tokens{
		Client:  kube.CoreV1().ServiceAccounts(c.Settings.Namespace),
		Account: c.Settings.ServiceAccount, Unverified: c.Settings.UnverifiedAccount,
		Clock: clock.RealClock{},
	}
	if c.Settings.Pod == "" {
		return tokens, nil
	}
	pod := &corev1.Pod{}
	name := types.NamespacedName{Namespace: c.Settings.Namespace, Name: c.Settings.Pod}
	if err := live.Get(ctx, name, pod); err != nil {
		return nil, fmt.Errorf("reading the pod of the controller: %w", err)
	}
	tokens.Pod = &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
	}
	return tokens, nil
}

// addServers adds what runs in each replica: health, and what ends the process.
func (c *Controller) addServers(m manager.Manager, checks *preflight, running Options,
	end context.CancelFunc,
) error {
	for name, add := range map[string]func(string, healthz.Checker) error{
		"healthz": m.AddHealthzCheck, "readyz": m.AddReadyzCheck,
	} {
		if err := add("ping", healthz.Ping); err != nil {
			return fmt.Errorf("adding %s: %w", name, err)
		}
	}
	if err := m.Add(checks); err != nil {
		return fmt.Errorf("adding the checks: %w", err)
	}
	err := builder.ControllerManagedBy(m).Named("options").For(&corev1.ConfigMap{}).
		WithOptions(ctrlcontroller.Options{NeedLeaderElection: ptr.To(false)}).
		Complete(&optionsReconciler{
			client: m.GetClient(), flags: c.Settings.Options, running: running,
			namespace: c.Settings.Namespace, events: m.GetEventRecorder(eventSource), end: end,
		})
	if err != nil {
		return fmt.Errorf("following ConfigMap %s: %w", ConfigMap, err)
	}
	return nil
}

// addReconcilers adds what runs the objects of users.
func (c *Controller) addReconcilers(ctx context.Context, m manager.Manager, options Options,
	pool *connection.Pool, lost connection.Names,
) error {
	kube, live, recorder := m.GetClient(), m.GetAPIReader(), m.GetEventRecorder(eventSource)
	drivers := c.Settings.Drivers
	nodes := &connection.Reconciler{
		Client: kube, Live: live, Pool: pool, Drivers: drivers, RetryDelay: options.NodeRetryDelay,
		Events: recorder,
	}
	jobs := &Jobs{
		Client: kube, Live: live, Drivers: drivers, Options: options, Sidecars: pool,
		MaxPerDriver: c.Settings.MaxPerDriver, Events: recorder, Metrics: c.Metrics,
		Clock: clock.RealClock{},
	}
	cronJobs := &CronJobs{Client: kube, Options: options, Events: recorder, Clock: clock.RealClock{}}
	claims := &Claims{
		Client: kube, Live: live, Drivers: drivers, Precedence: options.Precedence, Events: recorder,
	}
	fences := &fence.Reconciler{
		Client: kube, Live: live, Sidecars: pool, Drivers: drivers, Events: recorder,
		Metrics: c.Metrics, Clock: clock.RealClock{},
	}
	clients := &fence.Clients{Client: kube, Live: live, Pool: pool, Events: recorder}
	for kind, setUp := range map[string]func() error{
		"CSIAddonsNodes":       func() error { return nodes.SetUp(ctx, m, lost) },
		"ReclaimSpaceJobs":     func() error { return jobs.SetUp(ctx, m) },
		"ReclaimSpaceCronJobs": func() error { return cronJobs.SetUp(ctx, m) },
		"schedules of claims":  func() error { return claims.SetUp(ctx, m) },
		"NetworkFences":        func() error { return fences.SetUp(m) },
		"finalizers":           func() error { return fence.ReleaseClasses(m, drivers) },
		"NetworkFenceClasses":  func() error { return clients.SetUp(ctx, m) },
	} {
		if err := setUp(); err != nil {
			return fmt.Errorf("setting up %s: %w", kind, err)
		}
	}
	return nil
}
