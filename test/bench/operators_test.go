//go:build bench

// Package bench measures the memory and the API requests of the operators. `make bench` runs it, CI
// does not. It needs Linux, because it reads memory from /proc.
package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// settling is how long the operators may take to become idle.
	settling = 90 * time.Second
	// window is the period in which requests are counted, several times the longest interval.
	window = 2 * time.Minute
	// startBound bounds the start of all clusters and operators.
	startBound = 20 * time.Minute
)

func operators() []string { return []string{"manila-operator", "cinder-operator"} }

// BenchmarkHostedClusters runs the operators of many guest clusters on this machine and reports the
// containers of the controller pods, and the memory and the requests of one idle operator: alone in
// the namespace of its control plane, among other objects, and while these change. BENCH_GUESTS is
// the number of guest clusters, 20 by default.
func BenchmarkHostedClusters(b *testing.B) {
	guests, err := strconv.Atoi(cmp.Or(os.Getenv("BENCH_GUESTS"), "20"))
	must(b, err)
	s := environment{dir: b.TempDir(), operators: guests, args: []string{
		"--flavour=hypershift", "--guests=" + strconv.Itoa(guests),
	}}
	start := time.Now()
	s.run(b)
	b.Logf("%d guest clusters ready after %v", guests, time.Since(start).Round(time.Second))
	others := newNeighbours(b, s)
	b.Run("pods", others.measurePods)
	b.Run("alone", s.measure)
	others.create(b)
	b.Run("crowded", s.measure)
	end := others.keepChanging(b)
	b.Run("busy", s.measure)
	end()
}

// BenchmarkStandalone reports the memory and the requests of the idle operators of one cluster.
func BenchmarkStandalone(b *testing.B) {
	s := environment{dir: b.TempDir(), operators: 1}
	s.run(b)
	b.Run("alone", s.measure)
}

// environment contains the clusters and the operators.
type environment struct {
	dir string
	// operators is how often each operator runs.
	operators int
	args      []string // of the devcluster
}

// clusters returns the devcluster's folder.
func (s environment) clusters() string { return filepath.Join(s.dir, "clusters") }

// measure reports the medians of the operators' memory and the number of their requests.
func (s environment) measure(b *testing.B) {
	for b.Loop() {
		pause(b, settling)
		before := time.Now()
		pause(b, window)
		requests := s.countRequests(b, before)
		for _, operator := range operators() {
			processes := s.processesOf(b, operator)
			if len(processes) != s.operators {
				b.Fatalf("%d processes of %s run, want %d", len(processes), operator, s.operators)
			}
			for _, field := range []string{"Rss", "Pss", "Anonymous"} {
				report(b, operator+"-"+field+"-MB", median(b, processes, field), 0)
			}
			for _, side := range []string{"management", "guest"} {
				perRequest := 1 / float64(s.operators) / window.Minutes()
				perMinute := float64(requests[operator+side]) * perRequest
				report(b, operator+"-"+side+"-requests/min", perMinute, perRequest)
			}
		}
	}
}

// pause waits while the operators run.
func pause(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-time.After(d):
	case <-b.Context().Done():
		b.Fatal("interrupted")
	}
}

// run runs clusters and operators until the benchmark ends. It returns when all are ready.
func (s environment) run(b *testing.B) {
	b.Helper()
	log, err := os.Create(filepath.Join(s.dir, "run.log"))
	must(b, err)
	bin := filepath.Join(s.dir, "bin")
	must(b, copyOperators(bin))
	args := append([]string{
		"run", "--drivers=manila,cinder", "--binaries=" + os.Getenv("K8S_BIN_DIR"),
		"--dir=" + s.clusters(), "--bin=" + bin,
	}, s.args...)
	devcluster := filepath.Join(programs(), "devcluster")
	cmd := exec.Command(devcluster, args...) //nolint:noctx // it ends by a signal
	cmd.Stdout, cmd.Stderr = log, log
	must(b, cmd.Start())
	ended := make(chan struct{})
	go func() {
		err = cmd.Wait()
		close(ended)
	}()
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		<-ended
	})
	for deadline := time.After(startBound); ; {
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			b.Fatalf("devcluster ended: %v\n%s", err, text)
		case <-deadline:
			b.Fatalf("not ready within %v: see %s", startBound, log.Name())
		case <-time.After(time.Second):
		}
		text, err := os.ReadFile(log.Name())
		must(b, err)
		if bytes.Contains(text, []byte("ready after")) {
			return
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

// processesOf returns the process IDs of an operator.
func (s environment) processesOf(b *testing.B, operator string) []string {
	b.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(b, err)
	var found []string
	for _, file := range lines {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(text), "\x00")
		if filepath.Base(args[0]) == operator && strings.Contains(string(text), s.dir) {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

// median returns the median of a field of the processes' smaps_rollup, in MB.
func median(b *testing.B, processes []string, field string) float64 {
	b.Helper()
	var values []float64
	for _, pid := range processes {
		text, err := os.ReadFile(filepath.Join("/proc", pid, "smaps_rollup"))
		must(b, err)
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, field+":"); ok {
				kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
				must(b, err)
				values = append(values, kilobytes/1000)
			}
		}
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// countRequests returns the number of the operators' requests since a time, by operator and side,
// without watches.
func (s environment) countRequests(b *testing.B, since time.Time) map[string]int {
	b.Helper()
	counts := map[string]int{}
	for side, folder := range map[string]string{"management": ".", "guest": "guests/*"} {
		// The API server starts a new file when one is full.
		files, err := filepath.Glob(filepath.Join(s.clusters(), folder, "audit*.log"))
		must(b, err)
		for _, file := range files {
			must(b, countIn(file, side, since, counts))
		}
	}
	return counts
}

func countIn(file, side string, since time.Time, counts map[string]int) error {
	log, err := os.Open(file)
	if err != nil {
		return err
	}
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var request struct {
			Verb, UserAgent          string
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(scanner.Bytes(), &request); err != nil {
			return errors.Join(fmt.Errorf("reading %s: %w", file, err), log.Close())
		}
		for _, operator := range operators() {
			if strings.HasPrefix(request.UserAgent, operator+"/") && request.Verb != "watch" &&
				request.RequestReceivedTimestamp.After(since) {
				counts[operator+side]++
			}
		}
	}
	return errors.Join(scanner.Err(), log.Close())
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
