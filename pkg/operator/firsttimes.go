package operator

import (
	"context"
	"sync"

	"github.com/openshift/library-go/pkg/controller/factory"
)

// firstTimes tells when a number of syncs have each passed without error for the first time.
type firstTimes struct {
	passed []<-chan struct{}
}

// after returns sync, reporting its first success.
func (f *firstTimes) after(s factory.SyncFunc) factory.SyncFunc {
	passed := make(chan struct{})
	f.passed = append(f.passed, passed)
	once := sync.OnceFunc(func() { close(passed) })
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		err := s(ctx, syncCtx)
		if err == nil {
			once()
		}
		return err
	}
}

// wait returns when all have passed, or when ctx is done.
func (f *firstTimes) wait(ctx context.Context) {
	for _, passed := range f.passed {
		select {
		case <-passed:
		case <-ctx.Done():
			return
		}
	}
}
