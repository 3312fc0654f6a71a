package cinder

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

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
			t.Run(name+", "+enabled, func(t *testing.T) {
				t.Parallel()
				b := newFixture(t, standalone(written(enabled)))
				if remembered {
					b.cloud.offer(enabled == "true")
					assert.NilError(t, b.sync(t))
				}
				b.cloud.fail(openstack.CloudUnreachable)
				b.advance(zonesInterval)
				b.writes()
				for elapsed := time.Duration(0); elapsed <= grace+poll; elapsed += poll {
					err := b.sync(t)
					assert.Check(t, is.Equal(err != nil, elapsed > grace), "after %v: %v", elapsed, err)
					assert.Check(t, !strings.HasPrefix(b.condition(t, progressingType), "True"))
					b.advance(poll)
				}
				assert.Check(t, is.Len(b.writes(), 0))
				b.put(t, keys{userConfigKey: userText})
				assert.Check(t, b.sync(t) != nil)
				want := keys{configKey: configText + "\n" + userText, topologyKey: enabled}
				assert.Check(t, is.DeepEqual(want, b.data(flavour.Guest)))
			})
		}
	}
}

func TestGracePeriodContinuesAfterARestart(t *testing.T) {
	t.Parallel()
	for name, objects := range map[string]objects{
		"never an answer": nil, "an earlier answer": {written("true")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, standalone(objects...))
			b.cloud.fail(openstack.CloudUnreachable)
			for _, test := range []struct {
				after time.Duration
				wrong bool
			}{{0, false}, {grace / 2, false}, {grace / 4, false}, {poll / 2, true}} {
				b.advance(test.after)
				b.restart()
				// The controller of the configuration syncs before the first probe, as may happen in a new
				// process.
				assert.NilError(t, b.configure(t), "%v later, before the first probe", test.after)
				assert.NilError(t, b.sync(t), "%v later, after a first probe that failed", test.after)
				b.advance(poll)
				err := b.sync(t)
				assert.Check(t, is.Equal(err != nil, test.wrong), "%v later: %v", test.after, err)
			}
			b.cloud.offer(true)
			b.advance(poll)
			assert.NilError(t, b.sync(t))
			b.restart()
			b.cloud.fail(openstack.CloudUnreachable)
			for range 2 {
				assert.NilError(t, b.sync(t), "a new failure after a recovery has no grace")
				b.advance(poll)
			}
		})
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
	b.advance(zonesInterval)
	assert.NilError(t, b.sync(t), "in a new outage")
	b.advance(grace + poll)
	assert.Check(t, b.sync(t) != nil, "in a new outage that lasts longer than the grace")
}

func TestChoiceOfTheAdministratorNeedsNoProbe(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"true", "false"} {
		b := newFixture(t, standalone(userObject(userConfigMap, keys{userTopologyKey: word})))
		b.cloud.fail(openstack.CloudUnreachable)
		b.accepted.Refused = &openstack.Error{Reason: openstack.CloudUnreachable, Message: "no answer"}
		assert.NilError(t, b.sync(t), "before the first login")
		assert.Check(t, is.Equal(b.State.Condition(t, progressingType).Message, "no answer"))
		b.accepted.Refused = nil
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
