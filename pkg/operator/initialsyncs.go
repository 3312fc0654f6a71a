package operator

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/openshift/library-go/pkg/controller/factory"
)

// initialSyncs reports when each of several sync functions has succeeded once.
type initialSyncs struct {
	pending atomic.Int32
}

// track returns f, whose first success counts.
func (s *initialSyncs) track(f factory.SyncFunc) factory.SyncFunc {
	s.pending.Add(1)
	succeeded := sync.OnceFunc(func() { s.pending.Add(-1) })
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		err := f(ctx, syncCtx)
		if err == nil {
			succeeded()
		}
		return err
	}
}

// done returns true when each tracked function has succeeded.
func (s *initialSyncs) done() bool { return s.pending.Load() == 0 }
