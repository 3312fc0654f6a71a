//go:build bench

package bench

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/test/golden"
)

const figures = "testdata/figures.json"

// report prints a figure. It fails the benchmark if it is much higher than the recorded one.
func report(b *testing.B, name string, value, slack float64) {
	b.Helper()
	b.ReportMetric(value, name)
	golden.Figure(b, figures, name, value, slack)
}

// record is report for a figure that depends on the machine, so it is compared with nothing.
func record(tb testing.TB, name string, value float64) {
	tb.Helper()
	if b, ok := tb.(*testing.B); ok {
		b.ReportMetric(value, name)
	} else {
		tb.Logf("%s: %.1f", name, value)
	}
	golden.Figure(tb, figures, name, value, math.Inf(1))
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // envtest's messages repeat errors
	m.Run()
}

// programs returns the folder of the programs that `make build` built.
func programs() string { return cmp.Or(os.Getenv("BIN_DIR"), "../../bin") }

// BenchmarkPrograms reports the sizes of the operators' programs.
func BenchmarkPrograms(b *testing.B) {
	for b.Loop() {
		for _, operator := range operators() {
			file, err := os.Stat(filepath.Join(programs(), operator))
			must(b, err)
			report(b, operator+"-MB", float64(file.Size())/1e6, 0)
		}
	}
}
