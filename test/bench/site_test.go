//go:build bench

package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/test/devcluster/audit"
	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/devcluster/view"
)

// stepBound bounds each step of a measurement.
const stepBound = 20 * time.Minute

// site is a devcluster whose operators the test starts and stops.
type site struct {
	testing.TB

	cluster *cluster.Cluster
	dir     paths.Dir
	bin     string // the folder of the operators
	// processes are the running operators.
	processes []*process.Process
	sources   []*view.Source
}

// newSite starts a devcluster with a number of guest clusters, or a standalone cluster.
func newSite(tb testing.TB, guests int) *site {
	tb.Helper()
	s := &site{TB: tb, dir: paths.Dir(tb.TempDir()), bin: filepath.Join(tb.TempDir(), "bin")}
	s.must(copyOperators(s.bin))
	process.KillOnSignal(string(s.dir), os.Getenv("K8S_BIN_DIR"), s.bin)
	installed, err := fixtures.Operators([]string{"manila", "cinder"})
	s.must(err)
	s.cluster, err = cluster.Start(tb.Context(), cluster.Options{
		Dir: s.dir, Binaries: os.Getenv("K8S_BIN_DIR"), Operators: installed, Guests: guests,
		Progress: io.Discard,
	})
	s.must(err)
	tb.Cleanup(s.cluster.Stop)
	for _, e := range s.cluster.Environments() {
		source, err := view.NewSource(e)
		s.must(err)
		s.sources = append(s.sources, source)
	}
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// start starts all operators at the same moment, with their environment after a change.
func (s *site) start(change func(variable string) string) {
	s.Helper()
	for _, e := range s.cluster.Environments() {
		for _, o := range e.Operators {
			r := operator.Runner{Operator: o, Guest: e.Guest, Dir: e.Dir, Bin: s.bin}
			for _, variable := range o.Env() {
				r.Env = append(r.Env, change(variable))
			}
			started, err := process.Start(process.Options{
				Name: r.Name(), Path: r.Path(), Args: r.Args(), Env: r.Environment(), Log: r.Log(),
			})
			s.must(err)
			s.processes = append(s.processes, started)
			s.Cleanup(func() { started.Stop(time.Minute) })
		}
	}
}

func unchanged(variable string) string { return variable }

// stop stops all operators.
func (s *site) stop() {
	var ending sync.WaitGroup
	for _, p := range s.processes {
		ending.Go(func() { p.Stop(time.Minute) })
	}
	ending.Wait()
	s.processes = nil
}

// await polls a condition while the operators run.
func (s *site) await(what string, condition wait.ConditionWithContextFunc) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), time.Second, stepBound, true,
		func(ctx context.Context) (bool, error) {
			for _, p := range s.processes {
				if !p.Running() {
					return false, p.ExitError()
				}
			}
			return condition(ctx)
		})
	if err != nil {
		s.Fatalf("waiting until %s: %v", what, err)
	}
}

// pause waits while the operators run.
func (s *site) pause(d time.Duration) {
	s.Helper()
	end := time.Now().Add(d)
	s.await("time has passed", func(context.Context) (bool, error) {
		return time.Now().After(end), nil
	})
}

// ready returns whether the drivers of all clusters are ready.
func (s *site) ready(ctx context.Context) (bool, error) {
	var clusters []view.Cluster
	for _, source := range s.sources {
		state, err := source.Read(ctx, nil)
		clusters = append(clusters, view.Cluster{State: state, Err: err})
	}
	return len(view.Missing(clusters)) == 0, nil
}

// memoryOf returns a field of the smaps_rollup of the processes of a program in MB: the median and
// the sum. Without a program it counts all operators.
func (s *site) memoryOf(program, field string) (median, sum float64) {
	s.Helper()
	var values []float64
	for _, p := range s.processes {
		folder := filepath.Join("/proc", strconv.Itoa(p.PID()))
		command, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		s.must(err)
		path, _, _ := strings.Cut(string(command), "\x00")
		if program != "" && filepath.Base(path) != program {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, "smaps_rollup"))
		s.must(err)
		_, after, _ := strings.Cut(string(text), "\n"+field+":")
		var kilobytes float64
		_, err = fmt.Sscan(after, &kilobytes)
		s.must(err)
		values = append(values, kilobytes/kilobyte)
		sum += kilobytes / kilobyte
	}
	slices.Sort(values)
	return values[len(values)/2], sum
}

// request is a request of an operator in an audit log, except a watch.
type request struct {
	at time.Time
	// folder is that of the API server, program that of the operator.
	folder, program string
	// what is the verb and the resource.
	what string
	// writes is true unless the request only reads.
	writes bool
}

// requests returns the requests of the operators since a time.
func (s *site) requests(since time.Time) []request {
	s.Helper()
	var all []request
	folders := []string{string(s.dir)}
	for _, e := range s.cluster.Environments() {
		folders = append(folders, string(e.Dir))
	}
	for _, folder := range slices.Compact(folders) {
		events, err := audit.Read(paths.Dir(folder).AuditLog(), since, isOfOperator)
		s.must(err)
		for _, e := range events {
			if e.Verb == "watch" {
				continue
			}
			program, _, _ := strings.Cut(e.UserAgent, "/")
			object := ptr.Deref(e.ObjectRef, auditv1.ObjectReference{})
			all = append(all, request{
				at: e.RequestReceivedTimestamp.Time, folder: folder, program: program,
				what:   strings.TrimSuffix(e.Verb+" "+object.Resource+"/"+object.Subresource, "/"),
				writes: !slices.Contains([]string{"get", "list"}, e.Verb),
			})
		}
	}
	return all
}

// bySide returns the times of requests to the management API server and to all others.
func (s *site) bySide(all []request) (management, guest []time.Time) {
	for _, one := range all {
		if one.folder == string(s.dir) {
			management = append(management, one.at)
		} else {
			guest = append(guest, one.at)
		}
	}
	return management, guest
}

// isOfOperator returns whether an operator sent the request of a line.
func isOfOperator(line []byte) bool {
	return slices.ContainsFunc(operators(), func(program string) bool {
		return bytes.Contains(line, []byte(`"userAgent":"`+program+`/`))
	})
}

// logRequests logs requests, the most frequent first.
func (s *site) logRequests(what string, all []request) {
	s.Helper()
	counts := map[string]int{}
	for _, one := range all {
		counts[one.program+" "+one.what]++
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
	var lines []string
	for _, key := range keys[:min(len(keys), 12)] {
		lines = append(lines, fmt.Sprintf("%6d %s", counts[key], key))
	}
	s.Logf("%d requests %s:\n%s", len(all), what, strings.Join(lines, "\n"))
}

// peak returns the largest number of times within one second.
func peak(times []time.Time) int {
	slices.SortFunc(times, time.Time.Compare)
	most, first := 0, 0
	for i, last := range times {
		for last.Sub(times[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// watches returns the number of watches that an API server serves.
func (s *site) watches(config *rest.Config) float64 {
	s.Helper()
	client, err := kubernetes.NewForConfig(config)
	s.must(err)
	text, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context())
	s.must(err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	s.must(err)
	sum := 0.0
	for _, metric := range families["apiserver_longrunning_requests"].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "verb" && label.GetValue() == "WATCH" {
				sum += metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}
