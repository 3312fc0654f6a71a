// Package stopwatch measures bounds on a busy machine. The integration tests and the tests of
// failures call it.
package stopwatch

import (
	"fmt"
	"os"
	"time"
)

// Stopwatch measures how long something takes, without the time in which programs waited for a CPU:
// bounds are about the operator, not about the load of the machine. A quarter of the elapsed time
// counts in any case, so that every wait ends.
type Stopwatch struct {
	// Began is the time of the start.
	Began   time.Time
	starved time.Duration
}

// Start returns a running Stopwatch.
func Start() Stopwatch { return Stopwatch{time.Now(), starved()} }

// Elapsed returns the time that counts since the start.
func (w Stopwatch) Elapsed() time.Duration {
	const least = 4 // a quarter counts even if there was no CPU at all
	passed := time.Since(w.Began)
	return max(passed-(starved()-w.starved), passed/least)
}

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
