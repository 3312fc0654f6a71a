package cinder

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// written returns a cloud-conf with this topology.
func written(topology string) runtime.Object {
	return cloudConf(flavour.DefaultNamespace, keys{configKey: configText, topologyKey: topology})
}

func TestTopologyFollowsTheZones(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	expect := func(when, want string) {
		t.Helper()
		assert.Check(t, b.sync(t), when)
		assert.Check(t, is.Equal(b.data(t, flavour.Guest)[topologyKey], want), "%s %s", when, topologyKey)
		assert.Check(t, is.Equal(b.condition(t, progressingType), "False AsExpected"),
			"%s %s", when, progressingType)
		b.advance(zonesInterval)
	}
	expect("with all zones", "true")
	b.cloud.offer(false)
	b.settle(t)
	expect("with a zone for servers alone", "false")
	b.cloud.offer(true)
	b.settle(t)
	expect("with all zones again", "true")
	b.put(t, keys{userTopologyKey: "False"})
	expect("by the administrator's choice", "false")
	b.put(t, nil)
	expect("without it", "true")
}

func TestDriverWaitsForTheFirstProbeAndDegradesAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	assert.Check(t, b.config.Sync(t.Context(), factory.NewSyncContext("test", b.events)),
		"before the first probe has ended")
	assert.Check(t, is.Equal(b.condition(t, progressingType), "True WaitingForOpenStack"),
		"before the first probe has ended %s", progressingType)
	b.cloud.fail(openstack.CloudUnreachable)
	var messages []string
	for elapsed := time.Duration(0); elapsed <= 2*grace; elapsed += poll {
		err := b.sync(t)
		want := "True WaitingForOpenStack"
		if elapsed > grace {
			want = "False SyncError"
		}
		if got := b.condition(t, progressingType); got != want || (err != nil) != (elapsed > grace) {
			t.Fatalf("after %v %s is %q, the error %v", elapsed, progressingType, got, err)
		}
		if err != nil {
			messages = append(messages, err.Error())
		}
		assert.Check(t, is.Equal(b.condition(t, reachableType), "False CloudUnreachable"),
			"after %v %s", elapsed, reachableType)
		b.advance(poll)
	}
	for _, message := range messages {
		if message != messages[0] || !strings.Contains(message, "the cloud says CloudUnreachable") ||
			!strings.HasSuffix(message, "set key enable_topology of ConfigMap "+
				"openshift-config/cinder-csi-config to true or false") {
			t.Errorf("the message changes or lacks the cause or the remedy: %q, %q", messages[0], message)
		}
	}
	if writes := b.writes(); len(writes) > 0 || b.config.written() {
		t.Errorf("there was nothing to write, yet: %v", writes)
	}
	b.cloud.offer(true)
	if err := b.sync(t); err != nil || !b.config.written() {
		t.Errorf("when the cloud answers: written is %v, %v", b.config.written(), err)
	}
	assert.Check(t, is.Equal(b.condition(t, progressingType), "False AsExpected"),
		"when the cloud answers %s", progressingType)
}

// The last successful probe was in this run of the operator, or in an earlier one.
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
					if got := b.condition(t, progressingType); strings.HasPrefix(got, "True") ||
						(err != nil) != (elapsed > grace) {
						t.Fatalf("after %v %s is %q, the error %v", elapsed, progressingType, got, err)
					}
					b.advance(poll)
				}
				if writes := b.writes(); len(writes) > 0 || b.data(t, flavour.Guest)[topologyKey] != enabled {
					t.Errorf("the last answer did not stay: %v", writes)
				}
			})
		}
	}
}

func TestOutageDoesNotBlockConfiguration(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone(written("true")))
	b.cloud.fail(openstack.CloudUnreachable)
	b.put(t, keys{userConfigKey: userText})
	assert.NilError(t, b.sync(t))
	b.advance(grace + poll)
	if err := b.sync(t); err == nil {
		t.Error("after the grace there is no error")
	}
	if got := b.data(t, flavour.Guest); got[configKey] != configText+"\n"+userText ||
		got[topologyKey] != "true" {
		t.Errorf("cloud-conf is %v", got)
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
				assert.Check(t, b.config.Sync(t.Context(), factory.NewSyncContext("test", b.events)),
					"%v later, before the first probe", test.after)
				assert.Check(t, b.sync(t), "%v later, after a first probe that failed", test.after)
				b.advance(poll)
				if err := b.sync(t); (err != nil) != test.wrong {
					t.Errorf("%v later the error is %v", test.after, err)
				}
			}
			b.cloud.offer(true)
			b.advance(poll)
			assert.Check(t, b.sync(t))
			b.restart()
			b.cloud.fail(openstack.CloudUnreachable)
			for range 2 {
				assert.Check(t, b.sync(t), "a new failure after a recovery has no grace")
				b.advance(poll)
			}
		})
	}
}

// The start of the cluster may cause the first failure after a downtime. This failure does not
// degrade the driver, however many events trigger probes.
func TestDowntimeOfTheOperatorIsNotAnOutage(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone(written("true")))
	b.cloud.fail(openstack.CloudUnreachable)
	assert.NilError(t, b.sync(t))
	b.advance(8 * time.Hour)
	b.restart()
	for range 5 {
		b.trigger(t)
		assert.Check(t, b.sync(t), "right after a start")
		b.advance(poll / 20)
	}
	b.cloud.offer(true)
	b.advance(poll)
	assert.Check(t, b.sync(t), "when the cloud answers")
	b.cloud.fail(openstack.CloudUnreachable)
	b.advance(zonesInterval)
	assert.Check(t, b.sync(t), "in a new outage")
	b.advance(grace + poll)
	if err := b.sync(t); err == nil {
		t.Error("an outage of this run that lasts longer than the grace is no error")
	}
}

func TestChoiceOfTheAdministratorNeedsNoProbe(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"true", "false"} {
		b := newFixture(t, standalone(userObject(userConfigMap, keys{userTopologyKey: word})))
		b.cloud.fail(openstack.CloudUnreachable)
		for range 3 {
			assert.Check(t, b.sync(t))
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False AsExpected"), progressingType)
			b.advance(grace)
		}
		assert.Check(t, is.Equal(b.data(t, flavour.Guest)[topologyKey], word), topologyKey)
		if got := b.condition(t, reachableType); got != "False CloudUnreachable" {
			t.Errorf("%s is %q: the condition must report the outage", reachableType, got)
		}
	}
}

func TestInvalidTopologyOfCloudConfIsIgnored(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone(written("perhaps")))
	b.cloud.fail(openstack.CloudUnreachable)
	assert.NilError(t, b.sync(t))
	assert.Check(t, is.Equal(b.condition(t, progressingType), "True WaitingForOpenStack"),
		progressingType)
}

func TestRefusedCredentialsKeepTheConfiguration(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	assert.NilError(t, b.sync(t))
	before := b.data(t, flavour.Guest)
	b.writes()
	b.cloud.fail(openstack.AuthenticationFailed)
	b.putCredentials(t, keys{
		openstack.CloudsKey: strings.ReplaceAll(clouds("openstack"), password, "wrong"),
	})
	b.writes()
	b.trigger(t)
	assert.Check(t, b.sync(t), "within the grace")
	assert.Check(t, is.Equal(b.condition(t, reachableType), "False AuthenticationFailed"),
		reachableType)
	if writes := b.writes(); len(writes) > 0 ||
		b.data(t, flavour.Guest)[configKey] != before[configKey] {
		t.Errorf("writes: %v", writes)
	}
}
