// Package stopwatch measures bounds on a busy machine. The integration tests and the tests of
// failures call it.
package stopwatch

import (
	"fmt"
	"os"
	"time"
)

// Stopwatch measures how long something takes, without the time in which programs waited for a CPU:
// bounds are about the operator, not about the load of the machine. A share of the time counts in
// any case, so that every wait ends.
type Stopwatch struct {
	// Began is the time of the start.
	Began   time.Time
	starved time.Duration
}

// Start returns a running Stopwatch.
func Start() Stopwatch { return Stopwatch{time.Now(), starved()} }

// least is the share of the time that counts even if there was no CPU at all.
const least = 4

// Elapsed returns the time that counts since the start, for what must last at least that long.
func (w Stopwatch) Elapsed() time.Duration {
	passed := time.Since(w.Began)
	return max(passed-w.waited(), passed/least)
}

// Took returns the time that counts since the start, for what may last at most that long. On a
// machine without a free CPU, the least share of Elapsed counts from the second minute on: a bound
// of five seconds is about 20 requests, each of which can then take a second.
func (w Stopwatch) Took() time.Duration {
	passed := time.Since(w.Began)
	return max(passed-w.waited(), (passed-time.Minute)/least)
}

// Poll calls check, with pauses, until it returns nil or the bound is over, and returns its last
// error. In the first two minutes one call and its pause count at most as much as on a fast
// machine: if each request takes three seconds, check is called as often as elsewhere.
func Poll(bound time.Duration, pause func(), check func() error) error {
	const call, patience = 200 * time.Millisecond, 2 * time.Minute
	watch := Start()
	for calls := 1; ; calls++ {
		err := check()
		if err == nil {
			return nil
		}
		counted := min(watch.Took(), time.Duration(calls)*call)
		if max(counted, time.Since(watch.Began)-patience) > bound {
			return fmt.Errorf("not within %v: %w", bound, err)
		}
		pause()
	}
}

// waited returns how long some program has waited for a CPU since the start.
func (w Stopwatch) waited() time.Duration { return starved() - w.starved }

// starved returns how long some program has waited for a CPU since the machine started. It returns
// 0 if the kernel does not report it.
func starved() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	const format = "some avg10=%f avg60=%f avg300=%f total=%d"
	var ten, sixty, threeHundred float64
	var microseconds int64
	_, err = fmt.Sscanf(string(text), format, &ten, &sixty, &threeHundred, &microseconds)
	if err != nil {
		return 0
	}
	return time.Duration(microseconds) * time.Microsecond
}
