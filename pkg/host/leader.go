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
)

const (
	// endBound is how long work may take to end.
	endBound = 10 * time.Second
	// topologyBound is how long the start may wait for the served cluster's topology: who cannot be asked must not keep the operator
	// from its lease.
	topologyBound = 10 * time.Second
)

var errLeaseLost = errors.New("lost the lease: another process may lead now. If there is none, look at the API server's health")

// lead becomes leader, works, and gives the lease back.
func lead(ctx context.Context, o Options, work func(context.Context) error) error {
	if o.Operator.LeaderElection.Disable {
		return work(ctx)
	}
	// The lease outlives ctx until the work has ended.
	leaseCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	config, err := o.election(ctx)
	if err != nil {
		return err
	}
	started, ended := make(chan struct{}), make(chan error, 1)
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			close(started)
			workCtx, stop := context.WithCancel(ctx)
			defer stop()
			context.AfterFunc(leading, stop)
			ended <- work(workCtx)
			release()
		},
		OnStoppedLeading: func() {},
	}
	context.AfterFunc(ctx, func() {
		select {
		case <-started:
			time.AfterFunc(endBound, release)
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

// outcome says why leading ended.
func outcome(ctx context.Context, started <-chan struct{}, ended <-chan error) error {
	select {
	case <-started:
	default:
		return nil // ctx ended before the lease was had
	}
	select {
	case err := <-ended:
		if err != nil || ctx.Err() != nil {
			return err
		}
		return errLeaseLost
	case <-time.After(endBound):
		return fmt.Errorf("the work did not end within %v", endBound)
	}
}

// election has the durations that OpenShift recommends, for a single replica cluster where it is one. A hosted control plane is
// none: its topology is external.
func (o Options) election(ctx context.Context) (leaderelection.LeaderElectionConfig, error) {
	given := o.Operator.LeaderElection
	settings := electionconfig.LeaderElectionDefaulting(given, o.Namespace, o.Name+"-lock")
	if given.LeaseDuration.Duration == 0 && given.RenewDeadline.Duration == 0 && given.RetryPeriod.Duration == 0 {
		bounded, cancel := context.WithTimeout(ctx, topologyBound)
		defer cancel()
		infrastructure, err := clusterstatus.GetClusterInfraStatus(bounded, o.Served)
		switch {
		case err != nil:
			klog.FromContext(ctx).Info("Leader election for a highly available cluster: Infrastructure/cluster cannot be read", "reason", err.Error())
		case infrastructure.ControlPlaneTopology == configv1.SingleReplicaTopologyMode:
			settings = electionconfig.LeaderElectionSNOConfig(settings)
		}
	}
	client := rest.CopyConfig(o.Config)
	client.Timeout = settings.RenewDeadline.Duration
	config, err := electionconfig.ToLeaderElectionWithLease(client, settings, o.Name, "")
	if err != nil {
		return config, fmt.Errorf("preparing leader election: %w", err)
	}
	return config, nil
}
