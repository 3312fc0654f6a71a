//go:build bench

// Package bench measures what the operators cost. `make bench` runs it; it is no test, and CI does not run it. It needs
// Linux, for memory is read from /proc.
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
	// settling is how long the last of the operators may take to have nothing to do any more.
	settling = 90 * time.Second
	// window is what requests are counted over: several times the interval of anything that repeats.
	window = 2 * time.Minute
	// startBound is how long all clusters and operators may take to be ready.
	startBound = 20 * time.Minute
)

func operators() []string { return []string{"manila-operator", "cinder-operator"} }

// BenchmarkHostedClusters has the operators of many hosted clusters side by side on this machine, settled, and reports what one of
// each costs. BENCH_GUESTS is the number of hosted clusters, 20 unless given.
func BenchmarkHostedClusters(b *testing.B) {
	guests, err := strconv.Atoi(cmp.Or(os.Getenv("BENCH_GUESTS"), "20"))
	must(b, err)
	dir := b.TempDir()
	start := time.Now()
	run(b, dir, guests)
	b.Logf("%d hosted clusters ready after %v", guests, time.Since(start).Round(time.Second))
	for b.Loop() {
		pause(b, settling)
		before := time.Now()
		pause(b, window)
		requests := countRequests(b, dir, before)
		for _, operator := range operators() {
			processes := processesOf(b, dir, operator)
			if len(processes) != guests {
				b.Fatalf("%d processes of %s run, want %d", len(processes), operator, guests)
			}
			for _, field := range []string{"Rss", "Pss", "Anonymous"} {
				b.ReportMetric(median(b, processes, field), operator+"-"+field+"-MB")
			}
			for _, side := range []string{"management", "guest"} {
				perMinute := float64(requests[operator+side]) / float64(guests) / window.Minutes()
				b.ReportMetric(perMinute, operator+"-"+side+"-requests/min")
			}
		}
	}
}

// pause lets time pass: what is measured is what happens in it.
func pause(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-time.After(d):
	case <-b.Context().Done():
		b.Fatal("interrupted")
	}
}

// run runs clusters and operators until the benchmark ends, and returns when all are ready.
func run(b *testing.B, dir string, guests int) {
	b.Helper()
	log, err := os.Create(filepath.Join(dir, "run.log"))
	must(b, err)
	devcluster := filepath.Join(cmp.Or(os.Getenv("BIN_DIR"), "../../bin"), "devcluster")
	cmd := exec.Command(devcluster, "run", "--flavour=hypershift", "--drivers=manila,cinder", "--guests="+strconv.Itoa(guests), //nolint:noctx // ends by a signal
		"--binaries="+os.Getenv("K8S_BIN_DIR"), "--dir="+filepath.Join(dir, "clusters"))
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

// processesOf returns the process numbers of an operator whose files are in the folder.
func processesOf(b *testing.B, dir, operator string) []string {
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
		if filepath.Base(args[0]) == operator && strings.Contains(string(text), dir) {
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

// countRequests counts the operators' requests since a time, by operator and side. Watches that are renewed do not count.
func countRequests(b *testing.B, dir string, since time.Time) map[string]int {
	b.Helper()
	counts := map[string]int{}
	guests, err := filepath.Glob(filepath.Join(dir, "clusters", "guests", "*", "audit.log"))
	must(b, err)
	for _, file := range append(guests, filepath.Join(dir, "clusters", "audit.log")) {
		side := "management"
		if slices.Contains(guests, file) {
			side = "guest"
		}
		must(b, countIn(file, side, since, counts))
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
			if strings.HasPrefix(request.UserAgent, operator+"/") && request.Verb != "watch" && request.RequestReceivedTimestamp.After(since) {
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
