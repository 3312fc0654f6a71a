//go:build bench

// Package bench measures the memory and the API requests of the operators. `make bench` runs it, CI
// does not. It needs Linux, because it reads memory from /proc.
package bench

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

const (
	// settling is how long the operators may take to become idle.
	settling = 90 * time.Second
	// window is the period in which requests are counted, several times the longest interval.
	window = 2 * time.Minute
)

func operators() []string { return []string{"manila-operator", "cinder-operator"} }

// BenchmarkHostedClusters runs the operators of many guest clusters on this machine and reports the
// containers of the controller pods, and the memory and the requests of one idle operator: alone in
// the namespace of its control plane, among other objects, and while these change. BENCH_GUESTS is
// the number of guest clusters, 20 by default.
func BenchmarkHostedClusters(b *testing.B) {
	guests, err := strconv.Atoi(cmp.Or(os.Getenv("BENCH_GUESTS"), "20"))
	must(b, err)
	s := newIdleSite(b, guests)
	others := newNeighbours(b, s)
	b.Run("pods", others.measurePods)
	b.Run("alone", s.measureIdle)
	others.create(b)
	b.Run("crowded", s.measureIdle)
	end := others.keepChanging(b)
	b.Run("busy", s.measureIdle)
	end()
}

// BenchmarkStandalone reports the memory and the requests of the idle operators of one cluster.
func BenchmarkStandalone(b *testing.B) {
	b.Run("alone", newIdleSite(b, 0).measureIdle)
}

// newIdleSite starts clusters and operators. It returns when all drivers are ready.
func newIdleSite(b *testing.B, guests int) *site {
	b.Helper()
	s := newSite(b, guests)
	began := time.Now()
	s.start(unchanged)
	s.await("the drivers are ready", s.ready)
	b.Logf("all drivers are ready after %v", time.Since(began).Round(time.Second))
	return s
}

// measureIdle reports the medians of the operators' memory and the number of their requests.
func (s *site) measureIdle(b *testing.B) {
	part := *s
	part.TB = b
	perRequest := 1 / float64(len(s.cluster.Environments())) / window.Minutes()
	for b.Loop() {
		part.pause(settling)
		since := time.Now()
		part.pause(window)
		all := part.requests(since)
		for _, program := range operators() {
			for _, field := range []string{"Rss", "Anonymous"} {
				median, _ := part.memoryOf(program, field)
				report(b, program+"-"+field+"-MB", median, 0)
			}
			management, guest := s.bySide(slices.DeleteFunc(slices.Clone(all), func(r request) bool {
				return r.program != program
			}))
			for side, sent := range map[string][]time.Time{"management": management, "guest": guest} {
				report(b, program+"-"+side+"-requests/min", float64(len(sent))*perRequest, perRequest)
			}
		}
	}
}

// copyOperators copies the operators to a new folder. It writes them in parts of 32 KiB, as a
// container runtime unpacks an image: the larger a part, the larger the folios of the cache, and
// the kernel maps a whole folio when a process uses one of its pages.
func copyOperators(folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for _, operator := range operators() {
		program, err := os.ReadFile(filepath.Join(programs(), operator))
		if err != nil {
			return err
		}
		file, err := os.OpenFile(filepath.Join(folder, operator), os.O_CREATE|os.O_WRONLY, 0o700)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(program, 32<<10) {
			if _, err := file.Write(part); err != nil {
				return errors.Join(err, file.Close())
			}
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

func must(b *testing.B, err error) {
	b.Helper()
	assert.NilError(b, err)
}
