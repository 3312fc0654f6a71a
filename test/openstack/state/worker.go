//go:build linux

package state

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrInjected is the error of an operation that a fault makes fail.
var ErrInjected = errors.New("a fault of the simulator makes this operation fail")

// Outcome is what faults do to an operation that a request starts. The zero value is no fault.
type Outcome struct {
	// Fail makes the operation fail.
	Fail bool
	// Held are closed when the operation may begin.
	Held []<-chan struct{}
}

// Worker performs the operations that a service begins when it answers a request and completes
// later. NewWorker creates it; Close ends it.
type Worker struct {
	duration time.Duration
	report   func(error)

	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex // makes "is it closed" and "add to the group" one step
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

// Start performs an operation in the background: work, and then complete with the error of work. A
// worker that is closed meanwhile calls neither or only work. The returned channel is closed when
// the operation is complete.
func (w *Worker) Start(
	outcome Outcome, work func(context.Context) error, complete func(error),
) <-chan struct{} {
	done := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return done
	}
	if w.active++; w.active == 1 {
		w.idle = make(chan struct{})
	}
	w.pending.Go(func() {
		defer w.end()
		if !w.wait(outcome) {
			return
		}
		err := ErrInjected
		if !outcome.Fail {
			err = work(w.ctx)
		}
		if w.ctx.Err() != nil {
			return
		}
		if err != nil && !outcome.Fail {
			w.report(err)
		}
		complete(err)
		close(done)
	})
	return done
}

// end counts an operation that has ended.
func (w *Worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active--; w.active == 0 {
		close(w.idle)
	}
}

// Settle waits until all operations are complete, but no longer than a bound.
func (w *Worker) Settle(ctx context.Context, bound time.Duration) {
	w.mu.Lock()
	idle := w.idle
	w.mu.Unlock()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// StartRemoval removes something in the background: forget removes the record, or notes the error
// of a fault; then remove removes the data. Clients do not wait for the data.
func (w *Worker) StartRemoval(outcome Outcome, forget func(error), remove func() error) {
	w.Start(outcome, func(context.Context) error { return nil }, func(failure error) {
		forget(failure)
		if failure != nil {
			return
		}
		if err := remove(); err != nil {
			w.report(err)
		}
	})
}

// wait returns true when the operation may begin, false when the worker is closed.
func (w *Worker) wait(outcome Outcome) bool {
	timer := time.NewTimer(w.duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
		return false
	}
	for _, held := range outcome.Held {
		select {
		case <-held:
		case <-w.ctx.Done():
			return false
		}
	}
	return w.ctx.Err() == nil
}

// Close ends all operations and waits for them. It may be called again.
func (w *Worker) Close() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.pending.Wait()
}
