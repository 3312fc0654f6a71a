package cluster_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// TestPollsOfManyOperatorsSpread: operators that start at the same moment poll at different ones,
// each once in an interval.
func TestPollsOfManyOperatorsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const operators, intervals, interval = 200, 5, time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), intervals*interval)
		defer cancel()
		var running sync.WaitGroup
		started := time.Now()
		perSecond := make([][]int, intervals)
		var mu sync.Mutex
		for range operators {
			syncCtx := factory.NewSyncContext("test", events.NewInMemoryRecorder("test", clock.RealClock{}))
			running.Go(func() {
				_ = cluster.Poll(interval)(ctx, syncCtx)
				syncCtx.Queue().ShutDown()
			})
			running.Go(func() {
				polls := 0
				for {
					key, ended := syncCtx.Queue().Get()
					if ended {
						break
					}
					syncCtx.Queue().Done(key)
					at := time.Since(started)
					polls++
					mu.Lock()
					if perSecond[at/interval] == nil {
						perSecond[at/interval] = make([]int, interval/time.Second)
					}
					perSecond[at/interval][at%interval/time.Second]++
					mu.Unlock()
				}
				if polls <= intervals || polls > intervals+1 {
					t.Errorf("%d polls in %d intervals", polls, intervals)
				}
			})
		}
		running.Wait()
		for i, seconds := range perSecond {
			for second, polls := range seconds {
				if (i > 0 || second > 0) && polls > operators/5 {
					t.Errorf("%d of %d operators poll in second %d of interval %d", polls, operators, second, i)
				}
			}
		}
	})
}
