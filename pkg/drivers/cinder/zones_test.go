package cinder

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

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
		"after a failure of servers": {
			{0, poll, func(c *fakeCloud) { c.computeErr = errors.New("odd") }, 1},
			{time.Minute, poll, func(c *fakeCloud) { c.computeErr = nil }, 2},
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
				assert.Check(t, is.Equal(b.cloud.probes, s.probes), "step %d: lists of compute zones", i+1)
				healthy := cmp.Or(b.cloud.err, b.cloud.computeErr) == nil
				assert.Check(t, is.Equal(b.condition(t, reachableType) == "True AsExpected", healthy),
					"step %d: an outage is reported at the next poll", i+1)
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

func TestContradictionIsProbedAtTheNextPoll(t *testing.T) {
	t.Parallel()
	b := deployed(t, true)
	b.cloud.offer(false)
	b.advance(zonesInterval)
	for range settleProbes {
		assert.NilError(t, b.sync(t))
		b.advance(poll)
	}
	assert.Check(t, is.Equal(b.data(flavour.Guest)[topologyKey], "false"))
	probes := b.cloud.probes
	assert.NilError(t, b.sync(t))
	assert.Check(t, is.Equal(b.cloud.probes, probes), "probes after the change")
}

func TestZoneTrackerNotifiesOnlyOnChange(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	changes := 0
	_, _ = b.zones.changed.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) { changes++ },
	})
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
