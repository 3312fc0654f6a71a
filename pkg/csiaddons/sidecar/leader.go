package sidecar

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	pod       string
	lock      resourcelock.Interface
	elector   *leaderelection.LeaderElector
	// started is true after this process got the Lease. A Lease of an earlier process of the pod
	// names the pod before that.
	started atomic.Bool
	// releaseTimeout limits the requests that release the Lease.
	releaseTimeout time.Duration
}

func (p *Program) newElection(described driver.Description) (*election, error) {
	settings, lease := p.Settings.Election, wire.LeaseName(described.Name)
	e := &election{
		described: described, pod: p.Settings.Pod.Name, releaseTimeout: settings.RenewDeadline,
		lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: p.Settings.Pod.Namespace, Name: lease},
			Client:    p.Kube.CoordinationV1(),
			// Controllers find the leader by this name.
			LockConfig: resourcelock.ResourceLockConfig{
				Identity: wire.LeaseHolder(p.Settings.Pod.Name),
			},
		},
	}
	var err error
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: lease, Lock: e.lock, LeaseDuration: settings.LeaseDuration,
		RenewDeadline: settings.RenewDeadline, RetryPeriod: settings.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				e.started.Store(true)
				p.Metrics.leader.Set(1)
			},
			OnStoppedLeading: func() {}, // see run
		},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing leader election: %w", err)
	}
	return e, nil
}

// run takes part in elections until ctx is done, and then releases the Lease. The caller stops all
// operations before that. If the pod loses the Lease, run returns an error. Then the process must
// end at once, before another pod gets the Lease.
func (e *election) run(ctx context.Context) error {
	if !e.described.Controller {
		<-ctx.Done()
		return nil
	}
	e.elector.Run(ctx)
	if ctx.Err() == nil {
		return fmt.Errorf("pod %s lost the Lease %s of driver %s", e.pod, e.lock.Describe(),
			e.described.Name)
	}
	if err := e.release(context.WithoutCancel(ctx)); err != nil {
		klog.FromContext(ctx).Error(err,
			"Failed to release the Lease: the next leader waits until it expires")
	}
	return nil
}

// release gives up the Lease if this pod holds it, so that another pod need not wait for its end.
// ReleaseOnCancel of the elector would also do so after a loss of the Lease, before the process
// ends.
func (e *election) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.releaseTimeout)
	defer cancel()
	record, _, err := e.lock.Get(ctx)
	switch {
	case apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != e.lock.Identity():
		return nil
	case err != nil:
		return fmt.Errorf("reading Lease %s: %w", e.lock.Describe(), err)
	}
	record.HolderIdentity, record.LeaseDurationSeconds = "", 1
	if err := e.lock.Update(ctx, *record); err != nil {
		return fmt.Errorf("updating Lease %s: %w", e.lock.Describe(), err)
	}
	return nil
}

// check is a gRPC interceptor that refuses operations of a service that the driver does not serve
// in this pod, and operations of the controller service unless this pod is the leader. The code
// UNIMPLEMENTED would say that no pod of the driver has the operation: a success for a controller.
func (e *election) check(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	var err error
	switch info.FullMethod {
	case string(wire.ControllerReclaimSpace), string(wire.FenceClusterNetwork),
		string(wire.UnFenceClusterNetwork):
		err = e.leads()
	case string(wire.NodeReclaimSpace):
		err = e.serves("node", e.described.Node)
	}
	if err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

func (e *election) leads() error {
	if err := e.serves("controller", e.described.Controller); err != nil {
		return err
	}
	switch leader := e.elector.GetLeader(); {
	case leader == e.lock.Identity() && e.started.Load():
		return nil
	case leader == "" || leader == e.lock.Identity():
		return retryLater("no pod is the leader of driver %s at the moment", e.described.Name)
	default:
		return retryLater("pod %s is not the leader of driver %s: call the pod %q in Lease %s", e.pod,
			e.described.Name, leader, e.lock.Describe())
	}
}

// retryLater returns the error of a pod that is not the leader. It says when to try again, so that
// a controller does not wait longer after each attempt.
func retryLater(format string, args ...any) error {
	const delay = 5 * time.Second
	s := status.Newf(codes.FailedPrecondition, format, args...)
	detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	if err != nil { // it fails only for OK
		return s.Err()
	}
	return detailed.Err()
}

func (e *election) serves(service string, has bool) error {
	if has {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "driver %s has no %s service in pod %s",
		e.described.Name, service, e.pod)
}
