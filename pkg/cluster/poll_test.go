package cluster_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// The operators start at the same moment, and each polls once in an interval.
func TestPollsOfManyOperatorsSpread(t *testing.T) {
	t.Parallel()
	const intervals, interval = 5, time.Minute
	for _, operators := range []int{40, 400} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), intervals*interval)
			defer cancel()
			times := pollTimes(ctx, operators, interval)
			most, first := 0, operators // after the first poll of each
			for i, last := range times[operators:] {
				for last-times[first] >= time.Second {
					first++
				}
				most = max(most, operators+i-first+1)
			}
			assert.Check(t, most <= operators/3,
				"%d of %d operators poll in the same second", most, operators)
			assert.Check(t, len(times) > operators*intervals && len(times) <= operators*(intervals+1),
				"%d operators poll %d times in %d intervals", operators, len(times), intervals)
		})
	}
}

// pollTimes returns the times since now at which operators poll until ctx is done, sorted.
func pollTimes(ctx context.Context, operators int, interval time.Duration) []time.Duration {
	var running sync.WaitGroup
	var mu sync.Mutex
	var times []time.Duration
	started := time.Now()
	for range operators {
		syncCtx := factory.NewSyncContext("test", events.NewInMemoryRecorder("test", clock.RealClock{}))
		queue := syncCtx.Queue()
		running.Go(func() {
			_ = cluster.Poll(interval)(ctx, syncCtx) // returns no error
			queue.ShutDown()
		})
		running.Go(func() {
			for key, ended := queue.Get(); !ended; key, ended = queue.Get() {
				mu.Lock()
				times = append(times, time.Since(started))
				mu.Unlock()
				queue.Done(key)
			}
		})
	}
	running.Wait()
	slices.Sort(times)
	return times
}
