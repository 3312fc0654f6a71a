//go:build bench

package bench

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// growth is by how much a figure may exceed the recorded one.
const growth = 1.1

// report prints a figure. It fails the benchmark if testdata/figures.json contains a figure with
// this name and less than 10/11 of the value. slack is the precision of the measurement.
func report(b *testing.B, name string, value, slack float64) {
	b.Helper()
	b.ReportMetric(value, name)
	text, err := os.ReadFile("testdata/figures.json")
	must(b, err)
	var recorded map[string]map[string]float64 // by benchmark
	must(b, json.Unmarshal(text, &recorded))
	if before, ok := recorded[b.Name()][name]; ok && value > before*growth+slack {
		b.Errorf("%s is %.4g, more than a tenth above %.4g in testdata/figures.json", name, value, before)
	}
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
