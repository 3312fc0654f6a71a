//go:build integration

package integration

import (
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/stopwatch"
)

const (
	pollEvery = 100 * time.Millisecond
	// prompt bounds the reaction to an event, without a poll or a resync.
	prompt = 5 * time.Second
	// soon bounds what happens immediately or at the next poll.
	soon = 15 * time.Second
	// installed bounds the start of the operator and its drivers.
	installed = 40 * time.Second
	// cleanUp bounds what follows a test: checks, the end of the operator, and the removal of objects.
	// It is no property of the operator, and long because the time on a busy machine counts.
	cleanUp = 5 * time.Minute
)

// eventually waits until check returns nil. It fails the test with the last error if check does
// not return nil within bound, or if the operator ends.
func (e *env) eventually(bound time.Duration, check func() error) {
	e.t.Helper()
	assert.NilError(e.t, stopwatch.Poll(bound, func() { pause(e.t) }, func() error {
		err := check()
		if err != nil && e.operator != nil && !e.operator.Running() {
			e.t.Fatalf("the operator ended (%v) while waiting for: %v", e.operator.Err(), err)
		}
		return err
	}))
}

// expectNoWritesFor fails the test if the operator writes anything within the time, which is longer
// on a busy machine.
func (e *env) expectNoWritesFor(d time.Duration) {
	e.t.Helper()
	since := e.mark()
	for watch := stopwatch.Start(); watch.Elapsed() < d; pause(e.t) {
		if writes := e.writes(since); len(writes) > 0 {
			e.t.Fatalf("the operator wrote although nothing had changed:\n%s", list(writes))
		}
	}
}

// expectNoWritesDuring waits for more probes, and fails the test if the operator writes meanwhile.
func (e *env) expectNoWritesDuring(polls int) {
	e.t.Helper()
	since := e.mark()
	e.awaitPolls(polls)
	e.expectNone(fmt.Sprintf("the operator wrote during %d probes with the same result", polls),
		e.writes(since))
}

// awaitNoWrites waits until the operator has not written for a while, and returns that moment. The
// while is longer than a poll interval and than it takes to send delayed events: client-go sends
// one every 200 ms, and an event that repeats another does not contain the time of its emission.
func (e *env) awaitNoWrites() auditMark {
	e.t.Helper()
	const quiet = 1200 * time.Millisecond
	return e.awaitNoWritesFor(quiet)
}

// awaitNoWritesFor is awaitNoWrites with another duration. It is longer on a busy machine, and if
// requests are slow.
func (e *env) awaitNoWritesFor(quiet time.Duration) auditMark {
	e.t.Helper()
	since, watch, polls := e.mark(), stopwatch.Start(), 0
	e.eventually(installed, func() error {
		polls++
		if _, err := e.driver(); err != nil { // takes as long as a request of the operator
			return err
		}
		if writes := e.requests(since, request.isWrite); len(writes) > 0 {
			since, watch, polls = e.mark(), stopwatch.Start(), 0
			return fmt.Errorf("the operator keeps writing:\n%s", list(writes))
		}
		if watch.Elapsed() < quiet || time.Duration(polls)*pollEvery < quiet {
			return fmt.Errorf("the operator wrote nothing, but for less than %v", quiet)
		}
		return nil
	})
	return e.mark()
}

// pause waits between two calls of a check.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(pollEvery):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
