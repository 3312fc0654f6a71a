package controller

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/fence"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/node"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/reclaimspace"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/schedule"
)

// leaseName is the name of the Lease of the controller.
const leaseName = "csi-addons-openstack"

// lostBuffer is how many lost connections can wait for the manager.
const lostBuffer = 1024

// inner is the manager of the operations, with their connections.
type inner struct {
	manager.Manager

	pool *connection.Pool
}

// run runs the operations until ctx is done, and then closes all connections.
func (i *inner) run(ctx context.Context) error {
	defer i.pool.CloseAll()
	if err := i.Start(ctx); err != nil {
		return fmt.Errorf("running the operations: %w", err)
	}
	return nil
}

// newTokens returns the source of tokens for sidecars. The tokens end with the pod of the
// controller.
func (s *supervisor) newTokens(ctx context.Context) (*connection.Tokens, error) {
	kube, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of Kubernetes: %w", err)
	}
	tokens := &connection.Tokens{
		Client:  kube.CoreV1().ServiceAccounts(s.Settings.Namespace),
		Account: s.Settings.ServiceAccount, Unverified: s.Settings.UnverifiedAccount,
		Clock: clock.RealClock{},
	}
	if s.Settings.Pod == "" {
		return tokens, nil
	}
	pod := &corev1.Pod{}
	name := types.NamespacedName{Namespace: s.Settings.Namespace, Name: s.Settings.Pod}
	if err := s.outer.GetAPIReader().Get(ctx, name, pod); err != nil {
		return nil, fmt.Errorf("reading the pod of the controller: %w", err)
	}
	tokens.Pod = &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
	}
	return tokens, nil
}

// newOperations creates the manager of the operations. It serves sidecars in these namespaces.
func (s *supervisor) newOperations(
	ctx context.Context, tokens *connection.Tokens, namespaces []string,
) (*inner, error) {
	m, err := manager.New(s.config, s.innerOptions(namespaces))
	if err != nil {
		return nil, fmt.Errorf("creating the manager of operations: %w", err)
	}
	lost := make(node.Lost, lostBuffer)
	pool := connection.NewPool(tokens, s.Metrics, func(name types.NamespacedName) {
		select {
		case lost <- event.TypedGenericEvent[types.NamespacedName]{Object: name}:
		case <-ctx.Done():
		}
	})
	if err := s.addReconcilers(ctx, m, pool, lost); err != nil {
		return nil, err
	}
	return &inner{Manager: m, pool: pool}, nil
}

// addReconcilers adds what runs the objects of users.
func (s *supervisor) addReconcilers(ctx context.Context, m manager.Manager, pool *connection.Pool,
	lost node.Lost,
) error {
	recorder, router := m.GetEventRecorder(eventSource), &connection.Router{
		Pool: pool, Leases: m.GetAPIReader(),
	}
	nodes := &node.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Pool: pool, Drivers: s.Settings.Drivers,
		Options: s.live, Events: recorder,
	}
	jobs := &reclaimspace.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Drivers: s.Settings.Drivers, Options: s.live,
		Router: router, MaxPerDriver: s.Settings.MaxPerDriver, IndexDriver: node.IndexDriver,
		Events: recorder, Metrics: s.Metrics, Clock: clock.RealClock{},
	}
	schedules := &schedule.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Options: s.live, Events: recorder,
		Clock: clock.RealClock{},
	}
	claims := &schedule.Claims{
		Client: m.GetClient(), Live: m.GetAPIReader(), Drivers: s.Settings.Drivers, Options: s.live,
		IndexDriver: node.IndexDriver, Events: recorder,
	}
	fences := &fence.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Router: router, Drivers: s.Settings.Drivers,
		Events: recorder, Metrics: s.Metrics, Clock: clock.RealClock{},
	}
	clients := &fence.Clients{
		Client: m.GetClient(), Live: m.GetAPIReader(), Pool: pool, Events: recorder,
	}
	for kind, setUp := range map[string]func() error{
		"CSIAddonsNodes":       func() error { return nodes.SetUp(ctx, m, lost) },
		"ReclaimSpaceJobs":     func() error { return jobs.SetUp(ctx, m) },
		"ReclaimSpaceCronJobs": func() error { return schedules.SetUp(ctx, m) },
		"schedules of claims":  func() error { return claims.SetUp(ctx, m) },
		"NetworkFences":        func() error { return fences.SetUp(m) },
		"NetworkFenceClasses":  func() error { return clients.SetUp(ctx, m) },
	} {
		if err := setUp(); err != nil {
			return fmt.Errorf("setting up %s: %w", kind, err)
		}
	}
	return nil
}

// innerOptions returns the options of the manager of the operations.
func (s *supervisor) innerOptions(namespaces []string) manager.Options {
	return manager.Options{
		Scheme: s.scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0", GracefulShutdownTimeout: ptr.To(shutdownTimeout),
		LeaderElection: s.Settings.LeaderElect, LeaderElectionID: leaseName,
		LeaderElectionNamespace:       s.Settings.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Controller:                    ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
		Cache:                         cacheOptions(namespaces),
	}
}
