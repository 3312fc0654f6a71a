package state

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Outcome is what faults do to an operation that a request starts. The zero value is no fault.
type Outcome struct {
	// Fail makes the operation fail.
	Fail bool
	// Held are closed when the operation may begin.
	Held []<-chan struct{}
}

// Worker performs the operations that a service begins when it answers a request and completes
// later. Its lock protects the records of all services: it is held while they answer a request, and
// while an operation is completed, but not during the work. NewWorker creates it; Close ends it.
type Worker struct {
	sync.Mutex

	duration time.Duration
	report   func(error)

	ctx     context.Context
	cancel  context.CancelFunc
	pending sync.WaitGroup
	active  int           // operations that are not complete
	idle    chan struct{} // closed while there are none
}

// NewWorker returns a worker whose operations take that long at least. It calls report with the
// errors of operations, from several goroutines.
func NewWorker(duration time.Duration, report func(error)) *Worker {
	w := &Worker{duration: duration, report: report, idle: make(chan struct{})}
	close(w.idle)
	// Close ends it: operations outlive the requests that start them.
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Start performs an operation in the background: work, unless it is nil, and then complete with the
// error of work. A worker that is closed meanwhile calls neither or only work. The returned channel
// is closed when the operation is complete. The caller holds the lock.
func (w *Worker) Start(
	outcome Outcome, work func(context.Context) error, complete func(error),
) <-chan struct{} {
	done := make(chan struct{})
	if w.ctx.Err() != nil {
		return done
	}
	if w.active++; w.active == 1 {
		w.idle = make(chan struct{})
	}
	w.pending.Go(func() {
		err := w.perform(outcome, work)
		w.Lock()
		defer w.Unlock()
		if w.ctx.Err() == nil {
			complete(err)
			close(done)
		}
		if w.active--; w.active == 0 {
			close(w.idle)
		}
	})
	return done
}

// perform calls work when the operation may begin, unless the worker is closed before.
func (w *Worker) perform(outcome Outcome, work func(context.Context) error) error {
	timer := time.NewTimer(w.duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
	}
	for _, held := range outcome.Held {
		select {
		case <-held:
		case <-w.ctx.Done():
		}
	}
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case outcome.Fail:
		return errors.New("a fault of the simulator makes this operation fail")
	case work == nil:
		return nil
	}
	err := work(w.ctx)
	if err != nil && w.ctx.Err() == nil {
		w.report(err)
	}
	return err
}

// Settle waits until all operations are complete, but no longer than a bound.
func (w *Worker) Settle(ctx context.Context, bound time.Duration) {
	w.Lock()
	idle := w.idle
	w.Unlock()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Close ends all operations and waits for them. It may be called again.
func (w *Worker) Close() {
	w.Lock()
	w.cancel()
	w.Unlock()
	w.pending.Wait()
}
