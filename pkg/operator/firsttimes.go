package operator

import (
	"context"
	"sync"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
)

// firstTimes tells when a number of syncs have each passed without error for the first time.
type firstTimes struct {
	pending sync.WaitGroup
}

// after returns sync, reporting its first success.
func (f *firstTimes) after(s factory.SyncFunc) factory.SyncFunc {
	f.pending.Add(1)
	var once sync.Once
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		err := s(ctx, syncCtx)
		if err == nil {
			once.Do(f.pending.Done)
		}
		return err
	}
}

// wait returns when all have passed, or after the bound: what waits is better late and imperfect than never.
func (f *firstTimes) wait(ctx context.Context, bound time.Duration) {
	done := make(chan struct{})
	go func() {
		f.pending.Wait()
		close(done)
	}()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}
