//go:build bench

package bench

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	// pollInterval is the interval of polls of OpenStack.
	pollInterval = time.Minute
	// outage is how long Keystone fails.
	outage = 2 * pollInterval
	// nextRelease is the suffix of the images of the release that follows.
	nextRelease = "-next"
)

// TestFleet measures what the operators of several numbers of guest clusters cost, also when a new
// release starts in all of them at the same moment, and counts the requests that the largest number
// sends within a second when all tokens expire, and when Keystone is down. FLEET_GUESTS is the list
// of numbers, 5,10,20 by default.
func TestFleet(t *testing.T) { //nolint:paralleltest // it measures
	sizes := strings.Split(cmp.Or(os.Getenv("FLEET_GUESTS"), "5,10,20"), ",")
	for i, size := range sizes { //nolint:paralleltest // it measures
		guests, err := strconv.Atoi(size)
		assert.NilError(t, err)
		t.Run(size, func(t *testing.T) {
			f := newFleet(t, guests)
			f.measure()
			f.release()
			if i == len(sizes)-1 {
				f.polls()
				f.expiry()
				f.keystoneOutage()
			}
		})
	}
}

// fleet is a site with guest clusters.
type fleet struct {
	*site

	cloud cloudLog
}

// cloudLog is the part of the cloud that the fleet uses.
type cloudLog interface {
	Log() []simulator.Request
	ResetLog()
	ExpireTokens(ctx context.Context) error
	SetFault(fault simulator.Fault) (simulator.Fault, error)
	ClearFaults(ids ...string) error
}

// newFleet starts the clusters and their operators, and waits until all drivers are ready.
func newFleet(t *testing.T, guests int) *fleet {
	t.Helper()
	f := &fleet{site: newSite(t, guests)}
	f.cloud = f.cluster.Cloud()
	management, guest := f.watched()
	started := time.Now()
	f.start(unchanged)
	f.await("the drivers are ready", f.ready)
	record(f, "seconds until all drivers are ready", time.Since(started).Seconds())
	f.report("logins after the first start", f.logins())
	f.pause(settling)
	managementAfter, guestAfter := f.watched()
	record(f, "watches of operators on the management API server", managementAfter-management)
	t.Logf("watches of both operators on the API server of a guest cluster: %.0f", guestAfter-guest)
	return f
}

// watched returns the watches on the management API server, and on that of the first guest cluster.
func (f *fleet) watched() (management, guest float64) {
	f.Helper()
	first := f.cluster.Environments()[0]
	return f.watches(first.ControlConfig()), f.watches(first.Config())
}

// measure measures memory and requests of idle operators.
func (f *fleet) measure() {
	f.Helper()
	since := time.Now()
	f.pause(window)
	for _, field := range []string{"Rss", "Pss", "Anonymous"} {
		median, sum := f.memoryOf("", field)
		f.Logf("%s of an operator, median: %.1f MB", field, median)
		record(f, field+" of all operators in MB", sum)
	}
	management, guest := f.bySide(f.requests(since))
	for side, times := range map[string][]time.Time{
		"the management API server": management, "all guest API servers": guest,
	} {
		record(f, "requests per minute to "+side, float64(len(times))/window.Minutes())
	}
	f.Logf("at most %d requests a second to the management API server", peak(management))
}

// logins returns the times of the requests for a token since the last reset of the log.
func (f *fleet) logins() []time.Time {
	return f.calls(func(r simulator.Request) bool {
		return r.Service == simulator.Identity && r.Method == http.MethodPost
	})
}

func (f *fleet) calls(selects func(simulator.Request) bool) []time.Time {
	var times []time.Time
	for _, r := range f.cloud.Log() {
		if selects(r) {
			times = append(times, r.Time)
		}
	}
	return times
}

// report records how many requests there were, and how they spread.
func (f *fleet) report(what string, times []time.Time) {
	f.Helper()
	most := peak(times) // sorts
	spread := time.Duration(0)
	if len(times) > 0 {
		spread = times[len(times)-1].Sub(times[0])
	}
	f.Logf("%s: within %v", what, spread.Round(time.Second/10))
	record(f, what, float64(len(times)))
	record(f, what+" in the busiest second", float64(most))
}

// release starts the operators of another release in all guest clusters at the same moment.
func (f *fleet) release() {
	f.Helper()
	f.stop()
	f.cloud.ResetLog()
	// A pod contains the second of its creation.
	since := time.Now().Truncate(time.Second).Add(time.Second)
	f.pause(time.Until(since))
	f.start(func(variable string) string {
		if name, _, _ := strings.Cut(variable, "="); strings.HasSuffix(name, "_IMAGE") {
			return variable + nextRelease
		}
		return variable
	})
	f.await("all workloads have the new release", f.rolledOut)
	record(f, "seconds until a release is rolled out", time.Since(since).Seconds())
	f.report("logins of a release", f.logins())
	all := f.requests(since)
	management, guest := f.bySide(all)
	f.report("requests of a release to the management API server", management)
	f.report("requests of a release to all guest API servers", guest)
	f.logRequests("of a release", all)
	f.reportPods(since)
}

// rolledOut returns whether all workloads have pods of the next release only.
func (f *fleet) rolledOut(ctx context.Context) (bool, error) {
	for _, e := range f.cluster.Environments() {
		control, err := kubernetes.NewForConfig(e.ControlConfig())
		f.must(err)
		guest, err := kubernetes.NewForConfig(e.Config())
		f.must(err)
		for _, o := range e.Operators {
			d, err := control.AppsV1().Deployments(o.Namespace).
				Get(ctx, o.Workloads[0], metav1.GetOptions{})
			if err != nil || !isNextDeployment(d) {
				return false, err
			}
			for _, name := range o.Workloads[1:] {
				d, err := guest.AppsV1().DaemonSets(o.OperandNamespace).Get(ctx, name, metav1.GetOptions{})
				if err != nil || !isNextDaemonSet(d) {
					return false, err
				}
			}
		}
	}
	return true, nil
}

func isNextDeployment(d *appsv1.Deployment) bool {
	return strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, nextRelease) &&
		d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
		d.Status.Replicas == d.Status.UpdatedReplicas
}

func isNextDaemonSet(d *appsv1.DaemonSet) bool {
	return strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, nextRelease) &&
		d.Status.ObservedGeneration == d.Generation &&
		d.Status.UpdatedNumberScheduled == d.Status.DesiredNumberScheduled &&
		d.Status.NumberReady == d.Status.DesiredNumberScheduled
}

// reportPods logs the pods that were created since a time, on both sides.
func (f *fleet) reportPods(since time.Time) {
	f.Helper()
	times := map[string][]time.Time{}
	add := func(side string, kube kubernetes.Interface, namespace string) {
		pods, err := kube.CoreV1().Pods(namespace).List(f.Context(), metav1.ListOptions{})
		f.must(err)
		for _, pod := range pods.Items {
			if created := pod.CreationTimestamp.Time; !created.Before(since) {
				times[side] = append(times[side], created)
			}
		}
	}
	for _, e := range f.cluster.Environments() {
		control, err := kubernetes.NewForConfig(e.ControlConfig())
		f.must(err)
		guest, err := kubernetes.NewForConfig(e.Config())
		f.must(err)
		add("the management cluster", control, e.Operators[0].Namespace)
		add("all guest clusters", guest, e.Operators[0].OperandNamespace)
	}
	for side, created := range times {
		f.report("pods that a release creates in "+side, created)
	}
}

// polls measures whether operators that started at the same moment poll at the same moment.
func (f *fleet) polls() {
	f.Helper()
	f.pause(2 * pollInterval)
	f.cloud.ResetLog()
	f.pause(pollInterval)
	f.report("requests to OpenStack in an interval", f.calls(func(simulator.Request) bool {
		return true
	}))
}

// expiry measures the logins after all tokens have expired.
func (f *fleet) expiry() {
	f.Helper()
	f.cloud.ResetLog()
	f.must(f.cloud.ExpireTokens(f.Context()))
	f.pause(pollInterval * 5 / 4)
	f.report("logins after all tokens expired", f.logins())
}

// keystoneOutage measures the logins while Keystone fails, and afterwards.
func (f *fleet) keystoneOutage() {
	f.Helper()
	f.cloud.ResetLog()
	fault, err := f.cloud.SetFault(simulator.Fault{
		Mode: simulator.Status, Status: http.StatusServiceUnavailable, Service: simulator.Identity,
	})
	f.must(err)
	f.must(f.cloud.ExpireTokens(f.Context()))
	f.pause(outage)
	f.report(fmt.Sprintf("logins during %v without Keystone", outage), f.logins())
	f.cloud.ResetLog()
	f.must(f.cloud.ClearFaults(fault.ID))
	f.pause(pollInterval * 5 / 4)
	f.report("logins after the outage", f.logins())
}
