package host

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// sides is a process in one cluster that serves another.
func sides(t *testing.T) (own, served *apiServer, o Options) {
	t.Helper()
	own, served = newAPIServer(t), newAPIServer(t)
	o = own.options()
	o.Served, o.EventNamespace = served.config(), "guest"
	return own, served, o
}

// until polls until a condition is true.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return done(), nil })
	assert.Check(t, err, "waiting for %s", what)
}

// mustRun runs a process until its work returns.
func mustRun(t *testing.T, o Options, work func(context.Context, Process)) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	worked := false
	err := Run(ctx, o, func(ctx context.Context, p Process) error {
		worked = true
		work(ctx, p)
		cancel()
		return nil
	})
	assert.Check(t, err == nil && worked, "got %v, worked: %t", err, worked)
}

// checkOnlyEvents checks that a cluster received no other requests than events of a namespace, of
// which leader election creates one about its Lease.
func (s *apiServer) checkOnlyEvents(t *testing.T, namespace string) {
	t.Helper()
	for _, request := range s.received() {
		assert.Check(t, is.Equal(request, "POST /api/v1/namespaces/"+namespace+"/events"))
	}
}

func TestEventsAreInTheServedClusterAndTheLeaseInTheOwn(t *testing.T) {
	t.Parallel()
	own, served, o := sides(t)
	mustRun(t, o, func(_ context.Context, p Process) {
		assert.Check(t, p.Config.Host == o.Config.Host && p.Served.Host == o.Served.Host,
			"the work is given other clusters")
		p.Events.Eventf("Tested", "by %s", "a test")
		until(t, "the event", func() bool { return len(served.eventsOfWork()) > 0 })
	})
	assert.Check(t, is.DeepEqual([]string{"lease taken", "lease released"}, own.notes()),
		"lease in the process's own cluster")
	assert.Check(t, is.Len(served.notes(), 0), "lease in the served cluster")
	for _, event := range served.eventsOfWork() {
		assert.Check(t, is.DeepEqual(corev1.ObjectReference{
			APIVersion: "v1", Kind: "Namespace", Namespace: "guest", Name: "guest",
		}, event.InvolvedObject))
		assert.Check(t, is.Equal(event.Namespace+"/"+event.Reason, "guest/Tested"))
	}
	served.checkOnlyEvents(t, "guest")
	own.checkOnlyEvents(t, "ns")
	assert.Check(t, is.Len(own.eventsOfWork(), 0), "events in the process's own cluster")
}

// Without a pod, the events refer to the namespace.
func TestStandaloneEventsAreAboutTheDeployment(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	mustRun(t, server.options(), func(_ context.Context, p Process) {
		p.Events.Event("Tested", "by a test")
		until(t, "the event", func() bool { return len(server.eventsOfWork()) > 0 })
	})
	requests := strings.Join(server.received(), " ")
	assert.Check(t, strings.Contains(requests, "/pods"), "no pod was looked for: %s", requests)
	for _, event := range server.eventsOfWork() {
		assert.Check(t, event.Namespace == "ns" && event.InvolvedObject.Name == "ns",
			"event in %s about %s", event.Namespace, event.InvolvedObject.Name)
	}
}

// hanging is the transport to a cluster that never responds.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestTopologyRequestTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := Options{Config: &rest.Config{Host: "https://own.invalid", Transport: hanging{}}}
		start := time.Now()
		assert.Check(t, !o.isSingleReplica(t.Context()),
			"a cluster that does not respond is a single replica")
		assert.Check(t, is.Equal(time.Since(start), topologyTimeout))
	})
}

// Nothing before work waits for the served cluster.
func TestProcessLeadsWhileTheServedClusterHangs(t *testing.T) {
	t.Parallel()
	own, _, o := sides(t)
	o.Served = &rest.Config{Host: "https://guest.invalid", Transport: hanging{}}
	// the served cluster publishes the CA of client certificates
	o.Operator.Authentication.Disabled = false
	mustRun(t, o, func(_ context.Context, p Process) {
		p.Events.Event("Tested", "without anybody to hear of it")
	})
	assert.Check(t, is.DeepEqual([]string{"lease taken", "lease released"}, own.notes()), "order")
}

// The RBAC of the process's own cluster does not allow TokenReviews. What their answers mean is in
// TestMetricsRequireAuthorization.
func TestServedClusterAuthenticatesScrapes(t *testing.T) {
	t.Parallel()
	own, served, o := sides(t)
	o.Operator.Authentication.Disabled = false
	o.Operator.ServingInfo.BindNetwork = "unix"
	o.Operator.ServingInfo.BindAddress = filepath.Join(t.TempDir(), "s")
	mustRun(t, o, func(ctx context.Context, _ Process) {
		scrape := request{
			path: "/metrics", token: "scraper", socket: o.Operator.ServingInfo.BindAddress,
		}
		status, err := scrape.send(ctx, "localhost")
		assert.Check(t, err == nil && status == http.StatusUnauthorized, "got %d, %v", status, err)
		until(t, "the CA of client certificates", func() bool {
			return slices.Contains(served.received(), "GET /api/v1/namespaces/kube-system/configmaps")
		})
	})
	assert.Check(t, is.Contains(served.received(), "POST /apis/authentication.k8s.io/v1/tokenreviews"))
	own.checkOnlyEvents(t, "ns")
}
