package cinder

import (
	"context"
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Each step is one sync.
func TestComputeZonesAreListedWhenTheyAreOutdated(t *testing.T) {
	t.Parallel()
	type step struct {
		after   time.Duration
		act     func(*fixture, *testing.T)
		prepare func(*fakeCloud)
		probes  int
	}
	poll, trigger := (*fixture).probe, (*fixture).trigger
	failing := func(c *fakeCloud) { c.fail(openstack.CloudUnreachable) }
	for name, steps := range map[string][]step{
		"at once, and when the answer gets old": {
			{0, poll, nil, 1},
			{time.Minute, poll, nil, 1},
			{zonesInterval - 2*time.Minute, poll, nil, 1},
			{time.Minute, poll, nil, 2},
			{time.Minute, poll, nil, 2},
		},
		"after a failure": {
			{0, poll, nil, 1},
			{time.Minute, poll, failing, 1}, // the volume zones are listed first
			{time.Minute, poll, nil, 1},
			{time.Minute, poll, func(c *fakeCloud) { c.offer(true) }, 2},
			{time.Minute, poll, nil, 2},
		},
		"in a new session": {
			{0, poll, nil, 1},
			{time.Minute, poll, func(c *fakeCloud) { c.renewed = true }, 2},
			{time.Minute, poll, func(c *fakeCloud) { c.renewed = true }, 2},
		},
		"when the choices changed": {
			{0, poll, nil, 1},
			{time.Second, trigger, nil, 2},
			{time.Second, poll, nil, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, standalone())
			for i, s := range steps {
				if s.prepare != nil {
					s.prepare(b.cloud)
				}
				b.advance(s.after)
				s.act(b, t)
				if b.cloud.probes != s.probes {
					t.Errorf("step %d: %d lists of compute zones, want %d", i+1, b.cloud.probes, s.probes)
				}
			}
		})
	}
}

func TestIdleHourTakes66Requests(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.probe(t)
	compute, volume := b.cloud.probes, b.cloud.volumeLists
	for range time.Hour / poll {
		b.advance(poll)
		b.probe(t)
	}
	compute, volume = b.cloud.probes-compute, b.cloud.volumeLists-volume
	assert.Check(t, compute == 6 && volume == 60,
		"%d lists of compute zones and %d of volume zones, want 6 and 60", compute, volume)
}

func TestOutageOfVolumesIsReportedAtTheNextPoll(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.probe(t)
	for _, step := range []struct {
		cloud func()
		want  string
	}{
		{func() { b.cloud.fail(openstack.CloudUnreachable) }, "False CloudUnreachable"},
		{func() { b.cloud.offer(true) }, "True AsExpected"},
	} {
		step.cloud()
		b.advance(poll)
		b.probe(t)
		assert.Check(t, is.Equal(b.condition(t, reachableType), step.want), "the condition")
	}
}

func TestProbesOfZonesHaveADeadline(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.probe(t)
	assert.Check(t, b.cloud.bounded, "the request has no deadline")
	b.cloud.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.prober.Trigger(nil)
	assert.NilError(t, b.prober.Sync(ctx, nil))
	if status := b.zones.current(); !errors.Is(status.err, context.Canceled) ||
		!ptr.Deref(status.topology, false) {
		t.Errorf("after a cancelled request the status is %+v, want it to be known still", status)
	}
}

// onZones calls a function when the tracker notifies its users.
func (b *fixture) onZones(call func()) {
	_, _ = b.zones.changed.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) { call() },
	})
}

func TestUnmanagedIsNotProbed(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	unmanaged := opv1.OperatorSpec{ManagementState: opv1.Unmanaged}
	b.State.Set(t, &opv1.ClusterCSIDriver{Spec: opv1.ClusterCSIDriverSpec{OperatorSpec: unmanaged}})
	b.onZones(func() { t.Error("changes without a probe") })
	b.probe(t)
	b.trigger(t)
	if conditions := b.State.Conditions(t); b.cloud.probes != 0 || len(conditions) != 0 {
		t.Errorf("%d probes, conditions %v, want none", b.cloud.probes, conditions)
	}
}

func TestZoneTrackerNotifiesOnlyOnChange(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	changes := 0
	b.onZones(func() { changes++ })
	for i, step := range []struct {
		cloud func()
		want  int
	}{
		{func() { b.cloud.fail(openstack.CloudUnreachable) }, 1},
		{func() {}, 1},
		{func() { b.cloud.fail(openstack.AuthenticationFailed) }, 2},
		{func() { b.cloud.offer(true) }, 3},
		{func() {}, 3},
		{func() { b.cloud.offer(false) }, 3},
		{func() {}, 3},
		{func() {}, 4},
		{func() { b.cloud.fail(openstack.CloudUnreachable) }, 5},
		{func() {}, 5},
	} {
		b.advance(poll)
		step.cloud()
		b.trigger(t)
		assert.Check(t, changes == step.want, "step %d: %d changes, want %d", i+1, changes, step.want)
	}
}

func TestZoneTrackerKeepsTheLastDecision(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	if status := b.zones.current(); status.probed || status.topology != nil {
		t.Errorf("before any probe the status is %+v", status)
	}
	b.trigger(t)
	if status := b.zones.current(); !status.probed || !ptr.Deref(status.topology, false) ||
		status.err != nil {
		t.Errorf("the status is %+v", status)
	}
	b.cloud.fail(openstack.CloudUnreachable)
	began := b.clock.Now()
	for range 3 {
		b.trigger(t)
		if status := b.zones.current(); !ptr.Deref(status.topology, false) || status.err == nil ||
			!status.failingSince.Equal(began) {
			t.Errorf("when the cloud fails the status is %+v", status)
		}
		b.advance(time.Minute)
	}
	b.cloud.offer(false)
	for range settleProbes {
		b.trigger(t)
		b.advance(poll)
	}
	if status := b.zones.current(); ptr.Deref(status.topology, true) || status.err != nil ||
		!status.failingSince.IsZero() {
		t.Errorf("when the cloud has recovered the status is %+v", status)
	}
}

func TestStartOfAnOutageSurvivesARestart(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.cloud.fail(openstack.AuthenticationFailed)
	b.probe(t)
	assert.Assert(t, is.Equal(b.condition(t, reachableType), "False AuthenticationFailed"),
		"the condition")
	began := b.clock.Now()
	b.advance(time.Hour)
	b.restart()
	assert.NilError(t, b.config.Sync(t.Context(), factory.NewSyncContext("test", b.events)))
	assert.Check(t, is.Equal(b.condition(t, reachableType), "False AuthenticationFailed"),
		"before the first probe of another run the condition")
	b.probe(t)
	b.advance(poll)
	b.probe(t)
	if status := b.zones.current(); !status.failingSince.Equal(began) {
		t.Errorf("after a restart the cloud fails since %v, want %v", status.failingSince, began)
	}
	b.cloud.offer(true)
	b.advance(poll)
	b.probe(t)
	assert.Check(t, is.Equal(b.condition(t, reachableType), "True AsExpected"),
		"the condition of a cloud that recovered")
}

func TestUnknownErrorCountsAsUnreachable(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.cloud.err = errors.New("other")
	b.probe(t)
	assert.Check(t, is.Equal(b.condition(t, reachableType), "False CloudUnreachable"), "the condition")
}
