package cloudprobe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const interval = time.Minute

// fixture is a Probe of Manila with a Gate, in a cluster of fakes.
type fixture struct {
	*Probe
	fake   *clustertest.Fake
	client *clustertest.Operator
	events events.InMemoryRecorder
	access access
	// send is the request of the next probes; requests counts them.
	send     Request[string]
	requests atomic.Int32
	// results are those that a subscriber received.
	results []Result[string]
	starts  int
}

func newFixture(t *testing.T, c clock.Clock, conditions ...opv1.OperatorCondition) *fixture {
	t.Helper()
	f := &fixture{
		fake: clustertest.New(t, clustertest.Seed{}), events: events.NewInMemoryRecorder("test", c),
	}
	f.client = f.fake.State
	f.client.SetConditions(t, conditions...)
	f.Probe = New(Options{
		Service: "Manila", FieldManager: "Manila-Gate", Operator: f.client, Events: f.events, Clock: c,
		Interval: interval, Access: &f.access,
	}, func(ctx context.Context) (string, Availability, error) {
		f.requests.Add(1)
		return f.send(ctx)
	}, func(r Result[string]) { f.results = append(f.results, r) })
	f.Gate = &Gate{
		Deployed: func(context.Context) (bool, error) { return false, nil },
		Start:    func() { f.starts++ },
	}
	return f
}

// access is the access to OpenStack.
type access struct {
	cluster.Signal
	generation atomic.Int64
}

func (a *access) Generation() int            { return int(a.generation.Load()) }
func (a *access) Informer() factory.Informer { return &a.Signal }

// run runs the controller until the test ends.
func (f *fixture) run(t *testing.T) {
	t.Helper()
	f.fake.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx, 1) }()
	t.Cleanup(func() { stop(); <-ended })
}

// deployed simulates a driver that an earlier run of the operator deployed.
func (f *fixture) deployed() *fixture {
	f.Gate.Deployed = func(context.Context) (bool, error) { return true, nil }
	return f
}

// finds makes the next probes end with this outcome.
func (f *fixture) finds(o outcome) {
	f.send = func(context.Context) (string, Availability, error) { return "", o.Availability, o.err }
}

func (f *fixture) sync(ctx context.Context) error { return f.Probe.Sync(ctx, nil) }

// wantConditions compares all conditions, in the order of their names.
func (f *fixture) wantConditions(t *testing.T, want ...opv1.OperatorCondition) {
	t.Helper()
	assert.Check(t, is.DeepEqual(want, f.client.SortedConditions(t)), "conditions")
}

// wantProbes compares the number of probes.
func (f *fixture) wantProbes(t *testing.T, want int, label string) {
	t.Helper()
	assert.Check(t, is.Equal(int(f.requests.Load()), want), "probes %s", label)
}

func (f *fixture) eventReasons() []string {
	var reasons []string
	for _, event := range f.events.Events() {
		reasons = append(reasons, event.Reason)
	}
	return reasons
}

func newCondition(
	name string, status opv1.ConditionStatus, reason, message string,
) opv1.OperatorCondition {
	return opv1.OperatorCondition{Type: name, Status: status, Reason: reason, Message: message}
}

func reachable() opv1.OperatorCondition {
	return newCondition("ManilaCloudReachable", opv1.ConditionTrue, "AsExpected", "OpenStack answers")
}

func unreachable(reason, message string) opv1.OperatorCondition {
	return newCondition("ManilaCloudReachable", opv1.ConditionFalse, reason, message)
}

func disabled(reason, message string) opv1.OperatorCondition {
	return newCondition("ManilaControllerDisabled", opv1.ConditionTrue, reason, message)
}

// The outcomes of the tests: OpenStack offers what the driver needs, does not, refuses the
// credentials, cannot be reached.
func available() outcome { return outcome{Availability: Availability{Available: true}} }

func unavailable() outcome {
	return outcome{Availability: Availability{Reason: "NoManila", Message: "no sharev2"}}
}

func refused() outcome {
	return outcome{err: &openstack.Error{Reason: openstack.AuthenticationFailed, Message: "401"}}
}

func noResponse() outcome { return outcome{err: errors.New("no route")} }
