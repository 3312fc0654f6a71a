//go:build bench

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/audit"
	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/devcluster/readiness"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

const (
	// stepBound bounds each step of a measurement.
	stepBound = 20 * time.Minute
	// creators is the number of requests of the test at the same time.
	creators = 16
	// nextRelease is the suffix of the images of the release that follows.
	nextRelease = "-next"
)

// site is a devcluster whose operators the test starts and stops.
type site struct {
	testing.TB

	cloud  testcloud.Cloud
	places []*place
	dir    paths.Dir
	bin    string        // the folder of the operators
	every  time.Duration // between two checks of what the test waits for
	// running are the operators, in the order of the places.
	running []*running
}

// place is a standalone cluster, or a guest cluster with its control plane.
type place struct {
	*cluster.Environment

	// control is the cluster with the operators, guest that with the nodes.
	control, guest client.Client
}

// running is the process of an operator.
type running struct {
	*process.Process
	fixtures.Operator

	place *place
}

// newSite starts a devcluster with a number of guest clusters, or a standalone cluster.
func newSite(tb testing.TB, guests int) *site {
	tb.Helper()
	s := &site{
		TB: tb, dir: paths.Dir(tb.TempDir()), bin: filepath.Join(tb.TempDir(), "bin"),
		every: time.Second,
	}
	s.must(copyOperators(s.bin))
	process.KillOnSignal(string(s.dir), os.Getenv("K8S_BIN_DIR"), s.bin)
	installed, err := fixtures.Operators([]string{"manila", "cinder"})
	s.must(err)
	c, err := cluster.Start(tb.Context(), cluster.Options{
		Dir: s.dir, Binaries: os.Getenv("K8S_BIN_DIR"), Operators: installed, Guests: guests,
		Progress: io.Discard,
	})
	s.must(err)
	tb.Cleanup(c.Stop)
	tb.Cleanup(s.stop)
	s.cloud = c.Cloud()
	for _, e := range c.Environments() {
		s.places = append(s.places, &place{
			Environment: e, control: s.newClient(e.ControlConfig()), guest: s.newClient(e.Config()),
		})
	}
	return s
}

func (s *site) newClient(config *rest.Config) client.Client {
	s.Helper()
	config.QPS = -1
	known := runtime.NewScheme()
	s.must(errors.Join(scheme.AddToScheme(known), opv1.Install(known)))
	c, err := client.New(config, client.Options{Scheme: known})
	s.must(err)
	return c
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
			_, failure := file.Write(part)
			err = errors.Join(err, failure)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) must(err error) {
	s.Helper()
	assert.NilError(s, err)
}

// start starts the operators of the given programs, by default all, at the same moment, with the
// suffix at the names of the images in their environment.
func (s *site) start(suffix string, programs ...string) {
	s.Helper()
	for _, p := range s.places {
		for _, o := range p.Operators {
			if len(programs) > 0 && !slices.Contains(programs, o.Program) {
				continue
			}
			r := operator.Runner{Operator: o, Guest: p.Guest, Dir: p.Dir, Bin: s.bin, Env: o.Env()}
			for i, variable := range r.Env {
				if name, _, _ := strings.Cut(variable, "="); strings.HasSuffix(name, "_IMAGE") {
					r.Env[i] += suffix
				}
			}
			started, err := process.Start(process.Options{
				Name: r.Name(), Path: r.Path(), Args: r.Args(), Env: r.Environment(), Log: r.Log(),
			})
			s.must(err)
			s.running = append(s.running, &running{started, o, p})
		}
	}
}

// stop stops all operators.
func (s *site) stop() {
	var ending sync.WaitGroup
	for _, r := range s.running {
		ending.Go(func() { r.Stop(time.Minute) })
	}
	ending.Wait()
	s.running = nil
}

// await polls a condition while the operators run.
func (s *site) await(what string, condition wait.ConditionWithContextFunc) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), s.every, stepBound, true,
		func(ctx context.Context) (bool, error) {
			for _, r := range s.running {
				if !r.Running() {
					return false, r.ExitError()
				}
			}
			return condition(ctx)
		})
	assert.Assert(s, err == nil, "waiting until %s: %v", what, err)
}

// pause waits while the operators run.
func (s *site) pause(d time.Duration) {
	s.Helper()
	end := time.Now().Add(d)
	s.await("time has passed", func(context.Context) (bool, error) {
		return time.Now().After(end), nil
	})
}

// each calls a function for many numbers, several at the same time.
func (s *site) each(n int, do func(context.Context, int) error) {
	s.Helper()
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	s.must(group.Wait())
}

// ready returns whether the drivers of all operators are available, and nothing progresses.
func (s *site) ready(ctx context.Context) (bool, error) {
	for _, r := range s.running {
		driver := &opv1.ClusterCSIDriver{}
		err := r.place.guest.Get(ctx, client.ObjectKey{Name: r.ClusterCSIDriver}, driver)
		if err != nil || readiness.Of(driver.Status.Conditions).Available(len(r.Workloads)) != nil {
			return false, err
		}
	}
	return true, nil
}

// deployment reads the Deployment with the controller of the driver.
func (r *running) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	d, namespace := &appsv1.Deployment{}, r.OperandNamespace
	if r.place.Guest != "" {
		namespace = r.Namespace
	}
	return d, r.place.control.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Workloads[0]}, d)
}

// workload is the state of a Deployment or a DaemonSet.
type workload struct {
	isNext    bool  // the template has the images of the next release
	isCurrent bool  // all pods are those of the template
	nodes     int32 // of a DaemonSet, otherwise the largest number
}

// reached returns whether a function accepts all workloads of the drivers.
func (s *site) reached(accept func(workload) bool) wait.ConditionWithContextFunc {
	isNext := func(template corev1.PodTemplateSpec) bool {
		all := template.Spec.Containers
		return len(all) > 0 && strings.HasSuffix(all[0].Image, nextRelease)
	}
	return func(ctx context.Context) (bool, error) {
		for _, r := range s.running {
			d, err := r.deployment(ctx)
			isCurrent := d.Status.ObservedGeneration == d.Generation &&
				d.Status.UpdatedReplicas == d.Status.Replicas &&
				d.Status.Replicas == ptr.Deref(d.Spec.Replicas, 1)
			if err != nil || !accept(workload{isNext(d.Spec.Template), isCurrent, math.MaxInt32}) {
				return false, err
			}
			for _, name := range r.Workloads[1:] {
				d, key := &appsv1.DaemonSet{}, client.ObjectKey{Namespace: r.OperandNamespace, Name: name}
				err := r.place.guest.Get(ctx, key, d)
				nodes := d.Status.DesiredNumberScheduled
				isCurrent := d.Status.ObservedGeneration == d.Generation &&
					d.Status.UpdatedNumberScheduled == nodes && d.Status.NumberReady == nodes
				if err != nil || !accept(workload{isNext(d.Spec.Template), isCurrent, nodes}) {
					return false, err
				}
			}
		}
		return true, nil
	}
}

// memoryOf returns a field of the smaps_rollup of the processes of a program in MB: the median and
// the sum. Without a program it counts all operators.
func (s *site) memoryOf(program, field string) (median, sum float64) {
	s.Helper()
	var values []float64
	for _, r := range s.running {
		if program == "" || program == r.Program {
			value := s.megabytes(r, "smaps_rollup", field)
			values, sum = append(values, value), sum+value
		}
	}
	slices.Sort(values)
	return values[len(values)/2], sum
}

// megabytes reads a field of a file about a process, which contains KiB, as those of Linux do.
func (s *site) megabytes(r *running, file, field string) float64 {
	s.Helper()
	text, err := os.ReadFile(r.proc(file))
	s.must(err)
	_, after, _ := strings.Cut(string(text), "\n"+field+":")
	var kilobytes float64
	_, err = fmt.Sscan(after, &kilobytes)
	s.must(err)
	return kilobytes / kilobyte
}

func (r *running) proc(file string) string {
	return filepath.Join("/proc", strconv.Itoa(r.PID()), file)
}

// request is a request of an operator in an audit log, except a watch.
type request struct {
	at time.Time
	// isGuest says that the API server of a guest cluster got it; program is that of the operator.
	isGuest bool
	program string
	// what is the verb and the resource.
	what string
	// writes is true unless the request only reads.
	writes bool
}

// requests returns the requests of the operators since a time.
func (s *site) requests(since time.Time) []request {
	s.Helper()
	var all []request
	folders := []paths.Dir{s.dir}
	for _, p := range s.places {
		folders = append(folders, p.Dir)
	}
	for _, folder := range slices.Compact(folders) {
		events, err := audit.Read(folder.AuditLog(), since, isOfOperator)
		s.must(err)
		for _, e := range events {
			if e.Verb == "watch" {
				continue
			}
			program, _, _ := strings.Cut(e.UserAgent, "/")
			object := ptr.Deref(e.ObjectRef, auditv1.ObjectReference{})
			all = append(all, request{
				at: e.RequestReceivedTimestamp.Time, isGuest: folder != s.dir, program: program,
				what:   strings.TrimSuffix(e.Verb+" "+object.Resource+"/"+object.Subresource, "/"),
				writes: !slices.Contains([]string{"get", "list"}, e.Verb),
			})
		}
	}
	return all
}

// bySide returns the times of requests to the management API server and to all others.
func bySide(all []request) (management, guest []time.Time) {
	for _, one := range all {
		if one.isGuest {
			guest = append(guest, one.at)
		} else {
			management = append(management, one.at)
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

// logRequests logs requests.
func (s *site) logRequests(what string, all []request) {
	s.Helper()
	counts := map[string]int{}
	for _, one := range all {
		counts[one.program+" "+one.what]++
	}
	s.Logf("%d requests %s: %v", len(all), what, counts)
}
