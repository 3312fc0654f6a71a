//go:build bench

// Package bench measures the memory and the API requests of the operators. `make bench` runs it, CI
// does not. It needs Linux, because it reads memory from /proc.
package bench

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/test/golden"
)

// rounds is how often a start is measured.
const rounds = 3

// report prints a figure. It fails the test if it is much higher than the recorded one.
func report(tb testing.TB, name string, value, slack float64) {
	tb.Helper()
	tb.Logf("%s: %.4g", name, value)
	golden.Figure(tb, "testdata/figures.json", name, value, slack)
}

// record is report for a figure that depends on the machine, so it is compared with nothing.
func record(tb testing.TB, name string, value float64) {
	tb.Helper()
	report(tb, name, value, math.Inf(1))
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // envtest's messages repeat errors
	m.Run()
}

func operators() []string { return []string{"manila-operator", "cinder-operator"} }

// programs returns the folder of the programs that `make build` built.
func programs() string { return cmp.Or(os.Getenv("BIN_DIR"), "../../bin") }

// BenchmarkPrograms reports the sizes of the operators' programs.
func BenchmarkPrograms(b *testing.B) {
	for _, operator := range operators() {
		file, err := os.Stat(filepath.Join(programs(), operator))
		assert.NilError(b, err)
		report(b, operator+"-MB", float64(file.Size())/1e6, 0)
	}
}

// BenchmarkStandalone reports the memory and the requests of the idle operators of one cluster.
func BenchmarkStandalone(b *testing.B) {
	s := newSite(b, 0)
	s.start("")
	s.await("the drivers are ready", s.ready)
	s.measureIdle(b, "alone")
}

// BenchmarkStart reports how long an operator takes from its start in an empty cluster until all
// *Available conditions are True, and from the start of another release until all workloads have
// its images. No other operator runs.
func BenchmarkStart(b *testing.B) {
	times := map[string][]float64{}
	for round := range rounds {
		b.Run(fmt.Sprint(round), func(b *testing.B) {
			s := newSite(b, 0)
			s.every = 20 * time.Millisecond // the precision of the times
			for _, program := range operators() {
				measure := func(name, suffix, what string, done wait.ConditionWithContextFunc) {
					began := time.Now()
					s.start(suffix, program)
					s.await(what, done)
					times[program+name] = append(times[program+name], time.Since(began).Seconds())
					s.await("the driver is ready", s.ready)
					s.stop()
				}
				measure("-start-s", "", "the driver is ready", s.ready)
				measure("-upgrade-s", nextRelease, "all workloads have the new images",
					s.reached(func(w workload) bool { return w.isNext }))
			}
		})
	}
	for name, seconds := range times {
		slices.Sort(seconds)
		record(b, name, seconds[len(seconds)/2])
	}
}
