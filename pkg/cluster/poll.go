package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openshift/library-go/pkg/controller/factory"
)

// Poll triggers a controller when it starts and then once in each interval, for
// factory.WithPostStartHooks. The time until the second trigger is a random part of the interval,
// so that the operators of many clusters do not poll OpenStack at the same moment after they have
// started at the same moment. With factory.ResyncEvery they would do so until they end.
func Poll(interval time.Duration) factory.PostStartHook {
	// A trigger counts as another poll only after half of the interval.
	const shortest, longest = 0.6, 1.0
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		trigger := func(context.Context) { syncCtx.Queue().Add(factory.DefaultQueueKey) }
		trigger(ctx)
		first := time.Duration(shortest * float64(interval))
		select {
		case <-time.After(wait.Jitter(first, (longest-shortest)/shortest)):
			wait.UntilWithContext(ctx, trigger, interval)
		case <-ctx.Done():
		}
		return nil
	}
}
