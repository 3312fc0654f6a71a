//go:build chaos

// Package chaos lets everything fail on which the operators and the controller of CSI-Addons
// depend, and checks after each fault what they owe. `make chaos SEED=n` runs it.
package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"gotest.tools/v3/assert"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// installBound is the time for the first start of all programs.
	installBound = 3 * time.Minute
	// long is the duration of a run that shows whether processes grow.
	long = 10 * time.Minute
)

// options are the variables of `make chaos`.
type options struct {
	seed uint64
	// duration is the time for faults, kills the number of kills during the installation.
	duration time.Duration
	kills    int
	// names are the names of the faults.
	names *regexp.Regexp
	logs  string // a folder, which a failed test keeps
}

// newOptions reads the environment. Without a seed it chooses one.
func newOptions(t *testing.T) options {
	t.Helper()
	chosen := fmt.Sprint(rand.Uint64N(1_000_000))
	seed, seedErr := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), chosen), 10, 64)
	duration, durationErr := time.ParseDuration(cmp.Or(os.Getenv("DURATION"), "1m"))
	kills, killsErr := strconv.Atoi(cmp.Or(os.Getenv("KILLS"), "3"))
	names, namesErr := regexp.Compile(os.Getenv("FAULTS"))
	logs, logsErr := os.MkdirTemp("", "chaos-") //nolint:usetesting // a failed test keeps it.
	assert.NilError(t, errors.Join(seedErr, durationErr, killsErr, namesErr, logsErr))
	t.Logf("SEED=%d repeats this run", seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("SEED=%d repeats this run; all logs are kept in %s", seed, logs)
			return
		}
		assert.Check(t, os.RemoveAll(logs))
	})
	return options{seed, duration, kills, names, logs}
}

// newRandom returns a source that depends only on the seed and the name, not on what runs before.
func (o options) newRandom(name string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	return rand.New(rand.NewPCG(o.seed, hash.Sum64()))
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestStandalone lets everything fail in one cluster.
func TestStandalone(t *testing.T) {
	t.Parallel()
	run(t, 0)
}

// TestHyperShift lets everything fail in a management cluster and a guest cluster.
func TestHyperShift(t *testing.T) {
	t.Parallel()
	run(t, 1)
}

// run installs everything while operators are killed, and then causes faults for a while.
func run(t *testing.T, guests int) {
	t.Helper()
	w := newWorld(t, guests)
	w.cause(installed(w.kills), w.newRandom("install"))
	w.cause(killed(w.kills), w.newRandom("steady"))
	if w.duration < long {
		w.causeAll("all", faults(), w.duration)
	} else {
		w.causeAll("all", faults(), w.duration/3)
		w.causeCalmly()
	}
	w.checkLogs()
	if t.Failed() {
		w.dump()
	}
	t.Log(w.table())
}

// causeAll causes the selected faults again and again for a while, each time in another order. The
// part of the run, the round and the fault decide what is random in a fault.
func (w *world) causeAll(part string, all []fault, d time.Duration) {
	w.Helper()
	all = slices.DeleteFunc(all, func(f fault) bool { return !w.names.MatchString(f.name) })
	for round, end := 0, time.Now().Add(d); len(all) > 0; round++ {
		name := fmt.Sprint(part, round)
		w.newRandom(name).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, f := range all {
			if w.Failed() || time.Now().After(end) {
				return
			}
			w.cause(f, w.newRandom(name+f.name))
			w.measure()
		}
	}
}

// causeCalmly causes the faults that end no process for the duration of the run, and checks that no
// process grows.
func (w *world) causeCalmly() {
	w.Helper()
	mark := w.journal.mark()
	for _, r := range w.replicas() {
		if r.config != "" {
			w.must(r.configure(longElection))
		}
	}
	w.eventually(installBound, func() error { return w.converged(mark) })
	w.awaitQuiet(installBound)
	clear(w.samples)
	calm := slices.DeleteFunc(faults(), func(f fault) bool { return f.isProcess })
	w.causeAll("calm", calm, w.duration)
	w.checkGrowth()
}

// result is what a fault led to.
type result struct {
	took             time.Duration
	writes, requests int // the most of a program
}

// cause causes a fault, waits until the programs have converged, and checks what they did.
func (w *world) cause(f fault, random *rand.Rand) {
	w.Helper()
	w.deleted, w.edits = func(string) bool { return false }, 0
	mark := w.journal.mark()
	w.Logf("%s fault %s", time.Now().Format(time.TimeOnly), f.name)
	began := time.Now()
	w.must(f.inject(w, random))
	lasted := time.Since(began)
	healed := w.journal.mark()
	ended := func() error { return nil }
	if w.before != nil {
		w.drift(random)
		ended = w.addJob()
	}
	var r result
	r.took = w.eventually(f.bound, func() error { return cmp.Or(w.converged(healed), ended()) })
	w.awaitQuiet(f.bound)
	r.writes, r.requests = w.checkCalls(f, mark)
	w.checkObjects(f)
	w.Logf("%s: %.1f s, then converged after %.1f s; %d writes, %d requests, %d edits", f.name,
		lasted.Seconds(), r.took.Seconds(), r.writes, r.requests, w.edits)
	w.results[f.name] = append(w.results[f.name], r)
}

// table describes the results by fault.
func (w *world) table() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(w.results)) {
		all, most := w.results[name], result{}
		slices.SortFunc(all, func(a, b result) int { return cmp.Compare(a.took, b.took) })
		for _, r := range all {
			most.writes, most.requests = max(most.writes, r.writes), max(most.requests, r.requests)
		}
		text += fmt.Sprintf("\n%-20s %2d times: median %.1f s, longest %.1f s; up to %d writes, "+
			"%d requests", name, len(all), all[len(all)/2].took.Seconds(),
			all[len(all)-1].took.Seconds(), most.writes, most.requests)
	}
	return text
}
