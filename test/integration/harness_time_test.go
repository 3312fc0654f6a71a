//go:build integration

package integration

import (
	"fmt"
	"os"
	"testing"
	"time"
)

const (
	pollEvery = 50 * time.Millisecond
	// soon bounds what happens at once or at the next poll.
	soon = 15 * time.Second
	// installed bounds the start of operator and drivers.
	installed = 40 * time.Second
)

// stopwatch measures how long something takes, without the time in which programs waited for a CPU: a bound is about the
// operator, not about what else runs on the machine. Most of the time counts in any case, so that a bound ends every wait.
type stopwatch struct {
	began   time.Time
	starved time.Duration
}

func startWatch() stopwatch { return stopwatch{time.Now(), starved()} }

func (w stopwatch) elapsed() time.Duration {
	const least = 4 // a quarter counts even if there was no CPU at all
	passed := time.Since(w.began)
	return max(passed-(starved()-w.starved), passed/least)
}

// starved returns for how long, since the machine started, some program has waited for a CPU; 0 if the kernel does not tell.
func starved() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	var tens, minute, minutes float64
	var microseconds int64
	if _, err := fmt.Sscanf(string(text), "some avg10=%f avg60=%f avg300=%f total=%d", &tens, &minute, &minutes, &microseconds); err != nil {
		return 0
	}
	return time.Duration(microseconds) * time.Microsecond
}

// eventually waits until check returns nil, and fails the test with its last error if it does not within bound.
func (e *env) eventually(bound time.Duration, check func() error) {
	e.t.Helper()
	for watch := startWatch(); ; pause(e.t) {
		err := check()
		if err == nil {
			return
		}
		if e.operator != nil && !e.operator.running() {
			e.t.Fatalf("the operator ended (%v) while waiting for: %v", e.operator.err, err)
		}
		if watch.elapsed() > bound {
			e.t.Fatalf("not within %v: %v", bound, err)
		}
	}
}

// within fails the test, after it has waited, if check took longer than bound to return nil.
func (e *env) within(bound time.Duration, check func() error) {
	e.t.Helper()
	watch := startWatch()
	e.eventually(soon, check)
	if took := watch.elapsed(); took > bound {
		e.t.Errorf("it took %v, want %v at most", took.Round(time.Millisecond), bound)
	}
}

// throughout fails the test as soon as check returns an error within the time.
func (e *env) throughout(d time.Duration, check func() error) {
	e.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); pause(e.t) {
		if err := check(); err != nil {
			e.t.Fatal(err)
		}
	}
}

// idle fails the test if the operator writes anything within the time, which is longer on a busy machine.
func (e *env) idle(d time.Duration) {
	e.t.Helper()
	since := e.mark()
	for watch := startWatch(); watch.elapsed() < d; pause(e.t) {
		if writes := e.writes(since); len(writes) > 0 {
			e.t.Fatalf("the operator wrote, although nothing had changed:\n%s", list(writes))
		}
	}
}

// rest waits until the operator has written nothing for a while, and returns that moment. The while is longer than it takes to
// poll the cloud again and to send belated events: client-go sends these one in 200 ms, and one that repeats another does not
// tell when it was made.
func (e *env) rest() auditMark {
	e.t.Helper()
	const quiet = 1200 * time.Millisecond
	return e.restFor(quiet)
}

// restFor is rest with another while. It is longer on a busy machine.
func (e *env) restFor(quiet time.Duration) auditMark {
	e.t.Helper()
	since, watch := e.mark(), startWatch()
	e.eventually(installed, func() error {
		if writes := e.requests(since, request.isWrite); len(writes) > 0 {
			since, watch = e.mark(), startWatch()
			return fmt.Errorf("the operator keeps writing:\n%s", list(writes))
		}
		if watch.elapsed() < quiet {
			return fmt.Errorf("nothing has been written, but for less than %v", quiet)
		}
		return nil
	})
	return e.mark()
}

// pause lets time pass between two looks.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(pollEvery):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
