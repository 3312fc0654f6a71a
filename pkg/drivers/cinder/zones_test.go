package cinder

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/zones"
)

func TestComputeZonesAreListedWhenTheyAreOutdated(t *testing.T) {
	t.Parallel()
	type step struct {
		after   time.Duration
		prepare func(*fixture)
		probes  int32
	}
	failing := func(b *fixture) { b.cloud.fail(openstack.CloudUnreachable) }
	answering := func(b *fixture) { b.cloud.offer(true) }
	for name, steps := range map[string][]step{
		"at once, and when the answer gets old": {
			{0, nil, 1}, {zones.Interval - poll, nil, 1}, {poll, nil, 2}, {poll, nil, 2},
		},
		"after a failure; the volume zones are listed first": {
			{0, nil, 1}, {poll, failing, 1}, {poll, nil, 1}, {poll, answering, 2}, {poll, nil, 2},
		},
		"after a failure of servers": {
			{0, func(b *fixture) { b.cloud.computeErr = errors.New("odd") }, 1},
			{poll, func(b *fixture) { b.cloud.computeErr = nil }, 2},
			{poll, nil, 2},
		},
		"in a new session": {
			{0, nil, 1},
			{poll, func(b *fixture) { b.cloud = &fakeCloud{compute: up("a"), volume: up("a")} }, 1},
			{poll, nil, 1},
		},
		"when the choices changed": {
			{0, nil, 1}, {time.Second, func(b *fixture) { b.prober.MakeDue(nil) }, 2}, {time.Second, nil, 2},
		},
	} {
		b := newFixture(t, standalone())
		for i, s := range steps {
			if s.prepare != nil {
				s.prepare(b)
			}
			b.advance(s.after)
			b.probe(t)
			assert.Check(t, is.Equal(b.cloud.probes.Load(), s.probes), "%s, step %d", name, i+1)
			healthy := cmp.Or(b.cloud.err, b.cloud.computeErr) == nil
			assert.Check(t, is.Equal(b.condition(t, reachableType) == "True AsExpected", healthy),
				"%s, step %d: an outage is reported at the next poll", name, i+1)
		}
	}
}

func TestIdleHourTakes66Requests(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.probe(t)
	compute, volume := b.cloud.probes.Load(), b.cloud.volumeLists
	for range time.Hour / poll {
		b.advance(poll)
		b.probe(t)
	}
	compute, volume = b.cloud.probes.Load()-compute, b.cloud.volumeLists-volume
	assert.Check(t, compute == 6 && volume == 60 && b.cloud.typeLists == 0,
		"%d lists of compute zones, %d of volume zones and %d of volume types, want 6, 60 and 0",
		compute, volume, b.cloud.typeLists)
}

func TestContradictionIsProbedAtTheNextPoll(t *testing.T) {
	t.Parallel()
	b := deployed(t, true)
	b.cloud.offer(false)
	b.advance(zones.Interval)
	for range zones.Settle {
		assert.NilError(t, b.sync(t))
		b.advance(poll)
	}
	assert.Check(t, is.Equal(b.data(flavour.Guest)[topologyKey], "false"))
	probes := b.cloud.probes.Load()
	assert.NilError(t, b.sync(t))
	assert.Check(t, is.Equal(b.cloud.probes.Load(), probes), "probes after the change")
}

func TestZoneTrackerNotifiesOnlyOnChange(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	changes := 0
	_, _ = b.zones.Changed.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) { changes++ },
	})
	probe := func(want ...int) {
		t.Helper()
		for i, want := range want {
			b.advance(poll)
			b.trigger(t)
			assert.Check(t, is.Equal(changes, want), "changes after probe %d", i+1)
		}
	}
	b.cloud.fail(openstack.CloudUnreachable)
	probe(1, 1)
	b.cloud.fail(openstack.AuthenticationFailed)
	probe(2)
	b.cloud.offer(true)
	probe(3, 3)
	b.cloud.offer(false)
	probe(3, 3, 4)
	b.cloud.fail(openstack.CloudUnreachable)
	probe(5, 5)
}

func TestDriverWaitsForTheFirstProbeAndDegradesAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	assert.NilError(t, b.configure(t), "before the first probe has ended")
	assert.Check(t, is.Equal(b.condition(t, progressingType), "True WaitingForOpenStack"))
	b.cloud.fail(openstack.CloudUnreachable)
	const message = "OpenStack has not listed its availability zones for more than 15m0s: the cloud " +
		"says CloudUnreachable. To continue without the availability zones, set key enable_topology " +
		"of ConfigMap openshift-config/cinder-csi-config to true or false"
	for elapsed := time.Duration(0); elapsed <= 2*grace; elapsed += poll {
		err := b.sync(t)
		if elapsed <= grace {
			assert.NilError(t, err, "after %v", elapsed)
			assert.Check(t, is.Equal(b.condition(t, progressingType), "True WaitingForOpenStack"))
		} else {
			assert.Error(t, err, message, "after %v", elapsed)
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False SyncError"))
		}
		assert.Check(t, is.Equal(b.condition(t, reachableType), "False CloudUnreachable"))
		b.advance(poll)
	}
	assert.Check(t, is.Len(b.writes(), 0))
	assert.Check(t, !b.config.written())
	b.cloud.offer(true)
	assert.NilError(t, b.sync(t))
	assert.Check(t, b.config.written())
	assert.Check(t, is.Equal(b.condition(t, progressingType), "False AsExpected"))
}

// The last successful probe was in this run of the operator, or in an earlier one. Meanwhile the
// administrator can configure the driver.
func TestOutageKeepsTheTopology(t *testing.T) {
	t.Parallel()
	for name, remembered := range map[string]bool{"of this run": true, "of an earlier run": false} {
		for _, enabled := range []string{"true", "false"} {
			b := newFixture(t, standalone(written(enabled)))
			if remembered {
				b.cloud.offer(enabled == "true")
				assert.NilError(t, b.sync(t))
			}
			b.cloud.fail(openstack.CloudUnreachable)
			b.advance(zones.Interval)
			b.writes()
			for elapsed := time.Duration(0); elapsed <= grace+poll; elapsed += poll {
				err := b.sync(t)
				assert.Check(t, is.Equal(err != nil, elapsed > grace), "%s, %v: %v", name, elapsed, err)
				assert.Check(t, !strings.HasPrefix(b.condition(t, progressingType), "True"), name)
				b.advance(poll)
			}
			assert.Check(t, is.Len(b.writes(), 0), name)
			b.put(t, keys{userConfigKey: userText})
			assert.Check(t, b.sync(t) != nil, name)
			want := keys{configKey: configText + "\n" + userText, topologyKey: enabled}
			assert.Check(t, is.DeepEqual(want, b.data(flavour.Guest)), name)
		}
	}
}

func TestGracePeriodContinuesAfterARestart(t *testing.T) {
	t.Parallel()
	for name, objects := range map[string]objects{
		"never an answer": nil, "an earlier answer": {written("true")},
	} {
		b := newFixture(t, standalone(objects...))
		b.cloud.fail(openstack.CloudUnreachable)
		elapsed := time.Duration(0)
		for _, after := range []time.Duration{0, grace / 2, grace / 4, poll / 2} {
			b.advance(after)
			b.restart()
			// The controller of the configuration may sync before the first probe.
			assert.NilError(t, b.configure(t), "%s, %v later, before the first probe", name, after)
			assert.NilError(t, b.sync(t), "%s, %v later, the first probe failed", name, after)
			b.advance(poll)
			elapsed += after + poll
			err := b.sync(t)
			assert.Check(t, is.Equal(err != nil, elapsed > grace), "%s, %v: %v", name, elapsed, err)
		}
		b.cloud.offer(true)
		b.advance(poll)
		assert.NilError(t, b.sync(t), name)
		b.restart()
		b.cloud.fail(openstack.CloudUnreachable)
		for range 2 {
			assert.NilError(t, b.sync(t), "%s: a new failure after a recovery has no grace", name)
			b.advance(poll)
		}
	}
}

// The start of the cluster may cause the first failure after a downtime.
func TestDowntimeOfTheOperatorIsNotAnOutage(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone(written("true")))
	b.cloud.fail(openstack.CloudUnreachable)
	assert.NilError(t, b.sync(t))
	b.advance(8 * time.Hour)
	b.restart()
	for range 5 {
		b.trigger(t)
		assert.NilError(t, b.sync(t), "right after a start")
		b.advance(poll / 20)
	}
	b.cloud.offer(true)
	b.advance(poll)
	assert.NilError(t, b.sync(t), "when the cloud answers")
	b.cloud.fail(openstack.CloudUnreachable)
	b.advance(zones.Interval)
	assert.NilError(t, b.sync(t), "in a new outage")
	b.advance(grace + poll)
	assert.Check(t, b.sync(t) != nil, "in a new outage that lasts longer than the grace")
}

func TestChoiceOfTheAdministratorNeedsNoProbe(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"true", "false"} {
		b := newFixture(t, standalone(userObject(userConfigMap, keys{userTopologyKey: word})))
		b.cloud.fail(openstack.CloudUnreachable)
		b.credentials.Refused = &openstack.Error{Reason: openstack.CloudUnreachable, Message: "no answer"}
		assert.NilError(t, b.sync(t), "before the first login")
		assert.Check(t, is.Equal(b.State.Condition(t, progressingType).Message, "no answer"))
		b.credentials.Refused = nil
		for range 3 {
			assert.NilError(t, b.sync(t))
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False AsExpected"))
			b.advance(grace)
		}
		assert.Check(t, is.Equal(b.data(flavour.Guest)[topologyKey], word))
		assert.Check(t, is.Equal(b.condition(t, reachableType), "False CloudUnreachable"))
	}
}

// The administrator of a guest cluster can write the cloud-conf of its side.
func TestTopologyOfEarlierRunStays(t *testing.T) {
	t.Parallel()
	for earlier, want := range map[string]string{"false": "false", "perhaps": "", "none": ""} {
		seed := hyperShift()
		seed.Guest = append(seed.Guest, written("true"))
		if earlier != "none" {
			seed.ControlPlane = append(seed.ControlPlane, cloudConf(hosted, keys{topologyKey: earlier}))
		}
		b := newFixture(t, seed)
		b.cloud.fail(openstack.CloudUnreachable)
		assert.NilError(t, b.sync(t))
		if want == "" {
			assert.Check(t, is.Equal(b.condition(t, progressingType), "True WaitingForOpenStack"))
			continue
		}
		for _, side := range flavour.Sides() {
			assert.Check(t, is.Equal(b.data(side)[topologyKey], want), "the %s", side)
		}
	}
}
