// Package controller is the controller of CSI-Addons. It runs the objects of users: it finds the
// sidecars of the driver and calls them. cmd/csi-addons-controller runs it. Jobs runs
// ReclaimSpaceJobs, CronJobs creates them, and Claims creates ReclaimSpaceCronJobs by annotations.
package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/fence"
	"github.com/openstack-csi/csi-operator/pkg/lease"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

const (
	// requestsPerSecond and requestBurst limit the requests for objects of one kind, so that tenants
	// with many objects do not overload the API server. Leader election has a limit of its own.
	requestsPerSecond, requestBurst = 100, 200
	leaseName                       = "csi-addons-openstack"
	// eventSource is the component in events.
	eventSource = "csi-addons-controller"
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	guard := &lease.Guard{Duration: c.Settings.LeaseDuration, Lost: cancel}
	config := guard.Protect(c.Config)
	config.QPS, config.Burst = requestsPerSecond, requestBurst
	known, err := newScheme()
	if err != nil {
		return err
	}
	live, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		return fmt.Errorf("creating the client: %w", err)
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating the client of ServiceAccounts: %w", err)
	}
	published := discovery.NewDiscoveryClient(core.RESTClient()).OpenAPIV3()
	checks := &preflight{
		settings: c.Settings, client: live, restart: cancel,
		schemas: openapi3.NewRoot(published).GVSpecAsMap,
	}
	err = checks.await(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	tokens, err := c.newTokens(ctx, core, live)
	if err != nil {
		return err
	}
	m, err := manager.New(config, c.managerOptions(live, checks.served))
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	checks.events = m.GetEventRecorder(eventSource)
	err = errors.Join(m.Add(checks), m.AddHealthzCheck("ping", healthz.Ping),
		m.AddReadyzCheck("ping", healthz.Ping))
	if err != nil {
		return fmt.Errorf("adding checks: %w", err)
	}
	pool := connection.NewPool(tokens, c.Metrics, live)
	defer pool.CloseAll()
	if err := c.addReconcilers(ctx, m, checks.running, pool); err != nil {
		return err
	}
	return m.Start(ctx)
}

// managerOptions returns the options of the manager. It shares the discovered kinds with a client.
func (c *Controller) managerOptions(live client.Client, namespaces []string) manager.Options {
	metrics := metricsserver.Options{BindAddress: c.Settings.MetricsAddress}
	if c.Settings.SecureMetrics {
		metrics.SecureServing = true
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return manager.Options{
		Scheme: live.Scheme(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return live.RESTMapper(), nil
		},
		Metrics: metrics, HealthProbeBindAddress: c.Settings.ProbeAddress,
		LeaderElection: c.Settings.LeaderElect, LeaderElectionID: leaseName,
		LeaderElectionNamespace:       c.Settings.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &c.Settings.LeaseDuration,
		RenewDeadline:                 &c.Settings.RenewDeadline,
		RetryPeriod:                   &c.Settings.RetryPeriod,
		Controller:                    ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
		Cache:                         cacheOptions(namespaces),
	}
}

// newTokens returns the source of tokens for sidecars. They end with the pod of the controller.
func (c *Controller) newTokens(ctx context.Context, core corev1client.ServiceAccountsGetter,
	live client.Reader,
) (*connection.Tokens, error) {
	tokens := &connection.Tokens{
		Client:  core.ServiceAccounts(c.Settings.Namespace),
		Account: c.Settings.ServiceAccount, Unverified: c.Settings.UnverifiedAccount,
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

func (c *Controller) addReconcilers(ctx context.Context, m manager.Manager, options Options,
	pool *connection.Pool,
) error {
	kube, live, recorder := m.GetClient(), m.GetAPIReader(), m.GetEventRecorder(eventSource)
	drivers := c.Settings.Drivers
	nodes := &connection.Reconciler{
		Client: kube, Live: live, Pool: pool, Drivers: drivers, Events: recorder,
		RetryDelay: time.Duration(options.NodeRetryDelay) * time.Second,
	}
	jobs := &Jobs{
		Client: kube, Live: live, Drivers: drivers, Options: options, Sidecars: pool,
		MaxPerDriver: c.Settings.MaxPerDriver, Events: recorder, Metrics: c.Metrics,
		Clock: clock.RealClock{},
	}
	cronJobs := &CronJobs{Client: kube, Options: options, Events: recorder, Clock: clock.RealClock{}}
	claims := &Claims{
		Client: kube, Live: live, Drivers: drivers, ClassOnly: options.classOnly(), Events: recorder,
	}
	fences := &fence.Reconciler{
		Client: kube, Live: live, Sidecars: pool, Drivers: drivers, Events: recorder,
		Metrics: c.Metrics, Clock: clock.RealClock{},
	}
	clients := &fence.Clients{Client: kube, Pool: pool, Events: recorder}
	return errors.Join(nodes.SetUp(ctx, m), jobs.SetUp(ctx, m), cronJobs.SetUp(ctx, m),
		claims.SetUp(ctx, m), fences.SetUp(m), connection.ReleaseClasses(m, drivers),
		clients.SetUp(ctx, m))
}

func newScheme() (*runtime.Scheme, error) {
	known := runtime.NewScheme()
	return known, errors.Join(appsv1.AddToScheme(known), coordinationv1.AddToScheme(known),
		corev1.AddToScheme(known), storagev1.AddToScheme(known), v1alpha1.AddToScheme(known))
}

// NewCommand returns the command of the controller. It ends when ctx is done.
func NewCommand(ctx context.Context) *cobra.Command {
	var flags Flags
	cmd := &cobra.Command{
		Use:          "csi-addons-controller",
		Short:        "Run the operations of CSI-Addons",
		Version:      version.Get().String(),
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			s, err := flags.Load()
			if err != nil {
				return err
			}
			ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			// A second signal ends the process immediately.
			context.AfterFunc(ctx, restore)
			return start(ctx, s)
		},
	}
	flags.AddTo(cmd.Flags())
	return cmd
}

func start(ctx context.Context, s *Settings) error {
	logger := klog.FromContext(ctx)
	log.SetLogger(logger)
	logger.Info("Starting", "version", version.Get().GitVersion, "commit", version.Get().GitCommit)
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return err
	}
	recorded := connection.NewMetrics(ctrlmetrics.Registry)
	return (&Controller{Settings: s, Config: config, Metrics: recorded}).Run(ctx)
}
