//go:build chaos

// Package chaos lets everything fail on which the operators and the controller of CSI-Addons
// depend, and checks after each fault what they owe. `make chaos SEED=n` runs it.
package chaos

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
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
	names                *regexp.Regexp
	dir, bin, kubernetes string
}

// newOptions reads the environment. Without a seed it chooses one.
func newOptions(t *testing.T) options {
	t.Helper()
	o := options{
		seed: rand.Uint64N(1_000_000), duration: time.Minute, kills: 3,
		names: regexp.MustCompile(os.Getenv("FAULTS")),
	}
	var err error
	if text := os.Getenv("SEED"); text != "" {
		if o.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("DURATION"); text != "" {
		if o.duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("KILLS"); text != "" {
		if o.kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for path, value := range map[*string]string{
		&o.bin:        cmp.Or(os.Getenv("BIN_DIR"), "../../bin"),
		&o.kubernetes: cmp.Or(os.Getenv("K8S_BIN_DIR"), "../../bin/k8s"),
	} {
		if *path, err = filepath.Abs(value); err != nil {
			t.Fatal(err)
		}
	}
	// A failed test keeps it.
	if o.dir, err = os.MkdirTemp("", "chaos-"); err != nil { //nolint:usetesting // see above.
		t.Fatal(err)
	}
	process.KillOnSignal(o.dir, o.kubernetes, o.bin)
	t.Logf("SEED=%d repeats this run", o.seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("SEED=%d repeats this run; all logs are kept in %s", o.seed, o.dir)
		} else if err := os.RemoveAll(o.dir); err != nil {
			t.Error(err)
		}
	})
	return o
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
	run(t, newOptions(t), 0)
}

// TestHyperShift lets everything fail in a management cluster and a guest cluster.
func TestHyperShift(t *testing.T) {
	t.Parallel()
	run(t, newOptions(t), 1)
}

// run installs everything while operators are killed, and then causes faults for a while.
func run(t *testing.T, o options, guests int) {
	t.Helper()
	w := newWorld(t, o, guests)
	w.etcd = filepath.Join(o.kubernetes, "etcd")
	w.startOperators()
	w.startAddons()
	random := o.newRandom("install")
	for range o.kills {
		w.killAtWork(random)
	}
	took := w.eventually(installBound, func() error { return w.converged(nil, 0) })
	w.awaitQuiet(installBound)
	w.checkCalls(installed(o.kills), 0)
	results := []result{{name: "install", took: took}}
	results = append(results, w.cause(killed(o.kills), o.newRandom("steady")))
	if o.duration < long {
		results = append(results, w.causeAll(o, "all", faults(), o.duration)...)
	} else {
		results = append(results, w.causeAll(o, "all", faults(), o.duration/3)...)
		results = append(results, w.causeCalmly(o)...)
	}
	w.checkLogs()
	if t.Failed() {
		w.dump()
	}
	t.Log(table(results))
}

// causeAll causes the selected faults again and again for a while, each time in another order. The
// part of the run, the round and the fault decide what is random in a fault.
func (w *world) causeAll(
	o options, part string, all []fault, d time.Duration,
) (results []result) {
	w.Helper()
	all = slices.DeleteFunc(all, func(f fault) bool { return !o.names.MatchString(f.name) })
	for round, end := 0, time.Now().Add(d); len(all) > 0; round++ {
		name := fmt.Sprint(part, round)
		o.newRandom(name).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, f := range all {
			if w.Failed() || time.Now().After(end) {
				return results
			}
			results = append(results, w.cause(f, o.newRandom(name+f.name)))
			w.measure()
		}
	}
	return results
}

// causeCalmly causes the faults that end no process for the duration of the run, and checks that no
// process grows.
func (w *world) causeCalmly(o options) []result {
	w.Helper()
	mark := w.journal.mark()
	for _, r := range w.replicas() {
		if r.config != "" {
			w.must(r.configure(longElection))
		}
	}
	w.eventually(installBound, func() error { return w.converged(nil, mark) })
	w.awaitQuiet(installBound)
	w.samples = nil
	calm := slices.DeleteFunc(faults(), func(f fault) bool { return f.isProcess })
	results := w.causeAll(o, "calm", calm, o.duration)
	w.checkGrowth()
	return results
}

// measure adds a sample of each process.
func (w *world) measure() {
	w.Helper()
	for _, r := range w.replicas() {
		if p := r.running(); p != nil {
			var used usage
			// A fault may have broken a connection to the API server: Prometheus also reads again.
			w.eventually(soon, func() (err error) {
				used, err = r.measure(w.Context(), p.PID(), w.scraper)
				return err
			})
			leads := w.leader(r.program) == r
			w.samples = append(w.samples, sample{used, r.program.name, r.name, leads})
		}
	}
}

// result is what a fault led to.
type result struct {
	name             string
	took             time.Duration
	writes, requests int // the most of a program
	cloud            int
}

// cause causes a fault, waits until the programs have converged, and checks what they did.
func (w *world) cause(f fault, random *rand.Rand) result {
	w.Helper()
	before := w.snapshot()
	w.deleted, w.edits = func(string) bool { return false }, 0
	mark, requests := w.journal.mark(), w.cloud.Counters().Total()
	w.Logf("%s fault %s", time.Now().Format(time.TimeOnly), f.name)
	began := time.Now()
	w.must(f.inject(w, random, before))
	lasted := time.Since(began)
	healed := w.journal.mark()
	w.drift(before, random.IntN)
	ended := w.addJob()
	took := w.eventually(f.bound, func() error {
		if err := w.converged(before, healed); err != nil {
			return err
		}
		return ended()
	})
	w.awaitQuiet(f.bound)
	w.checkCalls(f, mark)
	w.checkObjects(f, before)
	r := result{name: f.name, took: took, cloud: w.cloud.Counters().Total() - requests}
	for _, p := range w.programs {
		of := func(accept func(*call) bool) int { return len(w.journal.of(p, mark, accept)) }
		r.writes, r.requests = max(r.writes, of((*call).isWrite)), max(r.requests, of(all))
	}
	w.Logf("%s: %.1f s, then converged after %.1f s; %d writes, %d requests, %d to OpenStack, "+
		"%d edits", f.name, lasted.Seconds(), took.Seconds(), r.writes, r.requests, r.cloud, w.edits)
	return r
}

// newScraper returns a token that may read the metrics of the operators.
func (w *world) newScraper() string {
	w.Helper()
	const namespace, name = "openshift-monitoring", "prometheus-k8s"
	_, err := w.guest.kube.CoreV1().ServiceAccounts(namespace).Create(w.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.must(err)
	token, err := w.guest.token(w.Context(), namespace, name, nil)
	w.must(err)
	return token
}

// table describes the results by fault.
func table(results []result) string {
	slices.SortStableFunc(results, func(a, b result) int { return strings.Compare(a.name, b.name) })
	var out strings.Builder
	lines := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "\nfault\ttimes\tmedian s\tmost s\twrites\trequests\tto OpenStack")
	for len(results) > 0 {
		of := slices.IndexFunc(results, func(r result) bool { return r.name != results[0].name })
		if of < 0 {
			of = len(results)
		}
		same, most := slices.Clone(results[:of]), result{}
		for _, r := range same {
			most.writes, most.requests = max(most.writes, r.writes), max(most.requests, r.requests)
			most.cloud = max(most.cloud, r.cloud)
		}
		slices.SortFunc(same, func(a, b result) int { return cmp.Compare(a.took, b.took) })
		fmt.Fprintf(lines, "%s\t%d\t%.1f\t%.1f\t%d\t%d\t%d\n", same[0].name, of,
			same[of/2].took.Seconds(), same[of-1].took.Seconds(), most.writes, most.requests, most.cloud)
		results = results[of:]
	}
	_ = lines.Flush() // a Builder never fails
	return out.String()
}
