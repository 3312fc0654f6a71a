package sidecar

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// election elects one of the pods with the controller service of a driver. Only its sidecar serves
// the operations of the controller service.
type election struct {
	described driver.Description
	settings  Election
	pod       string
	kube      kubernetes.Interface

	mu     sync.Mutex
	term   <-chan struct{} // closed when this pod is not the leader any more; nil without a term
	leader string          // the last leader that is known; "" without one
}

func (s *Sidecar) newElection(described driver.Description) *election {
	return &election{
		described: described, settings: s.Settings.Election, pod: s.Settings.Pod.Name, kube: s.Kube,
	}
}

// run takes part in elections until ctx is done, and then releases the Lease. A pod that loses the
// Lease goes on without a restart.
func (e *election) run(ctx context.Context) {
	if !e.described.Controller {
		return
	}
	log := klog.FromContext(ctx)
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(e.config())
		if err != nil { // the settings are checked when they are read
			log.Error(err, "Failed to prepare leader election: this pod never becomes the leader")
			return
		}
		elector.Run(ctx)
		e.setTerm(nil)
		if ctx.Err() == nil {
			log.Info("Lost the Lease: another pod serves the operations of the controller service",
				"lease", wire.LeaseName(e.described.Name))
		}
	}
}

func (e *election) config() leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Name: wire.LeaseName(e.described.Name),
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{
				Namespace: e.settings.Namespace, Name: wire.LeaseName(e.described.Name),
			},
			Client: e.kube.CoordinationV1(),
			// Controllers find the leader by the name of its pod.
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.pod},
		},
		LeaseDuration: e.settings.LeaseDuration, RenewDeadline: e.settings.RenewDeadline,
		RetryPeriod: e.settings.RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) { e.setTerm(term.Done()) },
			OnStoppedLeading: func() {}, OnNewLeader: e.setLeader,
		},
	}
}

func (e *election) setTerm(term <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = term
}

func (e *election) setLeader(pod string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leader = pod
}

// current returns the term of this pod, or an error that names the leader.
func (e *election) current() (<-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ended := e.term == nil
	select {
	case <-e.term:
		ended = true
	default:
	}
	switch {
	case !ended:
		return e.term, nil
	case e.leader == "" || e.leader == e.pod: // before the first term, or between two terms
		return nil, status.Errorf(codes.FailedPrecondition,
			"no pod is the leader of driver %s at the moment", e.described.Name)
	default:
		return nil, status.Errorf(codes.FailedPrecondition,
			"pod %s is not the leader of driver %s: call the pod %q in Lease %s/%s", e.pod,
			e.described.Name, e.leader, e.settings.Namespace, wire.LeaseName(e.described.Name))
	}
}

// check is a gRPC interceptor that refuses operations of the controller service unless this pod is
// the leader. It cancels an operation when the pod loses the Lease.
func (e *election) check(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	if !ofController(info.FullMethod) {
		return handler(ctx, request)
	}
	if !e.described.Controller {
		return nil, status.Errorf(codes.Unimplemented, "driver %s has no controller service in pod %s",
			e.described.Name, e.pod)
	}
	term, err := e.current()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-term:
			cancel()
		case <-ctx.Done():
		}
	}()
	return handler(ctx, request)
}

// ofController returns whether an operation belongs to the controller service of a driver.
func ofController(method string) bool {
	switch method {
	case wire.ReclaimSpace_ControllerReclaimSpace_FullMethodName,
		wire.NetworkFence_FenceClusterNetwork_FullMethodName,
		wire.NetworkFence_UnFenceClusterNetwork_FullMethodName:
		return true
	default:
		return false
	}
}
