package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/config/clusterstatus"
	electionconfig "github.com/openshift/library-go/pkg/config/leaderelection"

	"github.com/openstack-csi/csi-operator/pkg/lease"
)

const (
	// stopTimeout is how long work may take to return.
	stopTimeout = 10 * time.Second
	// topologyTimeout limits the request for the topology of the served cluster, so that an
	// unavailable API server does not prevent leader election.
	topologyTimeout = 10 * time.Second
)

var errLeaseLost = errors.New("lost the lease: another process may be the leader. " +
	"If there is none, check the health of the API server")

// lead becomes the leader, runs work, and releases the Lease. The clients of the options that work
// gets write only with the Lease.
func lead(ctx context.Context, o Options, work func(context.Context, Options) error) error {
	if o.Operator.LeaderElection.Disable {
		return work(ctx, o)
	}
	// The process keeps the Lease after ctx is done until work has returned.
	leaseCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	guard := &lease.Guard{Lost: release}
	o = o.protectedBy(guard)
	config, err := o.election(ctx)
	if err != nil {
		return err
	}
	guard.Duration = config.LeaseDuration
	started, ended := make(chan struct{}), make(chan error, 1)
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			close(started)
			workCtx, stop := context.WithCancel(ctx)
			defer stop()
			context.AfterFunc(leading, stop)
			ended <- work(workCtx, o)
			release()
		},
		OnStoppedLeading: func() {},
	}
	context.AfterFunc(ctx, func() {
		select {
		case <-started:
			time.AfterFunc(stopTimeout, release)
		default:
			release()
		}
	})
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return fmt.Errorf("preparing leader election: %w", err)
	}
	elector.Run(leaseCtx)
	return outcome(ctx, started, ended)
}

// protectedBy returns options whose clients have a guard. Equal configurations stay equal.
func (o Options) protectedBy(guard *lease.Guard) Options {
	isOne := o.Served == o.Config
	o.Config = guard.Protect(o.Config)
	if isOne {
		o.Served = o.Config
	} else {
		o.Served = guard.Protect(o.Served)
	}
	return o
}

// outcome returns why the process is no longer the leader.
func outcome(ctx context.Context, started <-chan struct{}, ended <-chan error) error {
	select {
	case <-started:
	default:
		return nil // ctx ended before the process acquired the Lease
	}
	select {
	case err := <-ended:
		if err != nil || ctx.Err() != nil {
			return err
		}
		return errLeaseLost
	case <-time.After(stopTimeout):
		return fmt.Errorf("the controllers did not stop within %v", stopTimeout)
	}
}

// election returns the durations that OpenShift recommends for the topology of the cluster in which
// the operator runs. In a hosted control plane, they are those of a highly available cluster: the
// guest cluster must not choose them.
func (o Options) election(ctx context.Context) (leaderelection.LeaderElectionConfig, error) {
	given := o.Operator.LeaderElection
	settings := electionconfig.LeaderElectionDefaulting(given, o.Namespace, o.Name+"-lock")
	if given.LeaseDuration.Duration == 0 && given.RenewDeadline.Duration == 0 &&
		given.RetryPeriod.Duration == 0 && o.Served == o.Config &&
		o.isSingleReplica(ctx) {
		settings = electionconfig.LeaderElectionSNOConfig(settings)
	}
	client := rest.CopyConfig(o.Config)
	client.Timeout = settings.RenewDeadline.Duration
	config, err := electionconfig.ToLeaderElectionWithLease(client, settings, o.Name, "")
	if err != nil {
		return config, fmt.Errorf("preparing leader election: %w", err)
	}
	return config, nil
}

// isSingleReplica reads the topology of the cluster. It returns false if that fails.
func (o Options) isSingleReplica(ctx context.Context) bool {
	timeoutCtx, cancel := context.WithTimeout(ctx, topologyTimeout)
	defer cancel()
	infrastructure, err := clusterstatus.GetClusterInfraStatus(timeoutCtx, o.Config)
	if err != nil {
		klog.FromContext(ctx).Info("Failed to read Infrastructure/cluster; "+
			"leader election uses the durations of a highly available cluster", "reason", err.Error())
		return false
	}
	return infrastructure.ControlPlaneTopology == configv1.SingleReplicaTopologyMode
}
