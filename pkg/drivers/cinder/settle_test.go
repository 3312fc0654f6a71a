package cinder

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// lists makes probes succeed with these zones.
func (f *fakeCloud) lists(compute, volume []openstack.Zone) {
	f.compute, f.volume, f.err = compute, volume, nil
}

// changes returns the events about topology.
func (b *fixture) changes() []string { return b.messages(topologyChanged) }

// messages returns the messages of the events with a reason.
func (b *fixture) messages(reason string) []string {
	var found []string
	for _, event := range b.events.Events() {
		if event.Reason == reason {
			found = append(found, event.Message)
		}
	}
	return found
}

// deploys returns a fixture with a deployed driver and two compute zones.
func deploys(t *testing.T, topology bool) *fixture {
	t.Helper()
	b := newFixture(t, standalone())
	b.cloud.lists(up("az1", "az2"), up("az1"))
	if topology {
		b.cloud.lists(up("az1", "az2"), up("az1", "az2"))
	}
	assert.NilError(t, b.sync(t))
	b.writes()
	return b
}

// The zones are out of service for long, also while the operator restarts.
func TestMaintenanceDoesNotChangeTheTopology(t *testing.T) {
	t.Parallel()
	half := append(up("az1"), down("az2")...)
	both := up("az1", "az2")
	for name, test := range map[string]struct {
		topology        bool
		compute, volume []openstack.Zone
	}{
		"volume services of a zone":           {true, both, half},
		"all volume services":                 {true, both, down("az1", "az2")},
		"compute services of a zone":          {true, half, both},
		"all compute services":                {true, down("az1", "az2"), both},
		"volume services here, compute there": {true, append(down("az1"), up("az2")...), half},
		"the zone without volumes":            {false, half, up("az1")},
		"all compute services, topology off":  {false, down("az1", "az2"), up("az1")},
		"all volume services, topology off":   {false, both, down("az1")},
		"everything":                          {true, down("az1", "az2"), down("az1", "az2")},
		"everything, topology off":            {false, down("az1", "az2"), down("az1")},
		"a new zone that is not in service":   {true, append(up("az1", "az2"), down("az3")...), both},
		"a volume zone, another one is new":   {true, both, append(up("az1", "az3"), down("az2")...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := deploys(t, test.topology)
			before := b.data(t, flavour.Guest)
			b.cloud.lists(test.compute, test.volume)
			for range 3 {
				b.settle(t)
				b.restart()
				b.settle(t)
			}
			assert.Check(t, is.Equal(b.condition(t, reachableType), "True AsExpected"), reachableType)
			if writes := b.writes(); len(writes) > 0 || len(b.changes()) > 0 {
				t.Errorf("a maintenance leads to writes %v, events %v; cloud-conf was %v",
					writes, b.changes(), before)
			}
		})
	}
}

// The operator starts while the API server refuses the first list of cloud-conf, and a zone is in
// maintenance.
func TestFailedListOfCloudConfDoesNotChangeTheTopology(t *testing.T) {
	t.Parallel()
	b := unstarted(t, standalone(written("true")))
	b.cloud.lists(up("az1", "az2"), append(up("az1"), down("az2")...))
	var refused atomic.Bool
	b.Guest.PrependReactor("list", "configmaps",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			refuse := action.GetNamespace() == flavour.DefaultNamespace && !refused.Swap(true)
			return refuse, nil, apierrors.NewTooManyRequests("restarting", 0)
		})
	go b.prober.Run(t.Context(), 1)
	go b.config.Run(t.Context(), 1)
	b.Start(t)
	b.await(t, "the configuration", b.config.written)
	if got := b.data(t, flavour.Guest)[topologyKey]; got != "true" || !refused.Load() {
		t.Errorf("%s is %q, refused is %v", topologyKey, got, refused.Load())
	}
	if writes := b.writes(); len(writes) > 0 {
		t.Errorf("a restart leads to writes: %v", writes)
	}
}

// The event, the condition and the administrator's report name the zones.
func TestZonesThatNoNodeLabelCanHold(t *testing.T) {
	t.Parallel()
	const fault = `node labels cannot hold the names of compute zones "Failure domain 2"`
	b := newFixture(t, standalone(written("true")))
	zones := up("az1", "Failure domain 2")
	b.cloud.lists(zones, zones)
	b.settle(t)
	want := []string{`enable_topology of cloud-conf changes from true to false because of compute ` +
		`zones "Failure domain 2", az1; volume zones "Failure domain 2", az1; ` + fault}
	assert.Check(t, is.DeepEqual(want, b.changes()), "events")
	message := func() string {
		return v1helpers.FindOperatorCondition(b.State.Conditions(t), progressingType).Message
	}
	b.restart()
	b.settle(t)
	if got, suffix := message(), ". Topology is off: "+fault; !strings.HasSuffix(got, suffix) {
		t.Errorf("%s is %q, want the suffix %q", progressingType, got, suffix)
	}
	b.put(t, keys{userTopologyKey: "false"})
	b.settle(t)
	if got := message(); strings.Contains(got, fault) {
		t.Errorf("%s is %q although the administrator decides", progressingType, got)
	}
}

// TestEmptyZoneListsKeepTopology checks that empty lists do not change a known topology, and that a
// driver that was never deployed waits.
func TestEmptyZoneListsKeepTopology(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		compute, volume []openstack.Zone
		says            string
	}{
		"no zones at all":  {nil, nil, "block storage service (Cinder)"},
		"no compute zones": {nil, up("az1", "az2"), "compute service (Nova)"},
		"no volume zones":  {up("az1"), nil, "block storage service (Cinder)"},
		"empty lists":      {[]openstack.Zone{}, []openstack.Zone{}, "block storage service (Cinder)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, topology := range []bool{true, false} {
				b := deploys(t, topology)
				b.cloud.lists(test.compute, test.volume)
				b.settle(t)
				assert.Check(t, is.Equal(b.condition(t, reachableType), "False CloudUnreachable"),
					reachableType)
				if err := b.zones.current().err; err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("the error is %v, want it to name the %s", err, test.says)
				}
				if writes := b.writes(); len(writes) > 0 {
					t.Errorf("no answer leads to writes: %v", writes)
				}
			}
			b := newFixture(t, standalone())
			b.cloud.lists(test.compute, test.volume)
			b.settle(t)
			if got := b.condition(t, progressingType); got != "True WaitingForOpenStack" ||
				len(b.writes()) > 0 {
				t.Errorf("without an answer %s is %q", progressingType, got)
			}
		})
	}
}

// An event explains the change.
func TestTopologyChangesAfterConsecutiveProbes(t *testing.T) {
	t.Parallel()
	const because = "enable_topology of cloud-conf changes from true to false because of compute " +
		"zones az1, az2 -> az1, az2, az3; volume zones az1, az2 -> az1, az2"
	b := deploys(t, true)
	three := up("az1", "az2", "az3")
	expect := func(when, want string, changes ...string) {
		t.Helper()
		assert.Check(t, is.Equal(b.data(t, flavour.Guest)[topologyKey], want), "%s %s", when, topologyKey)
		if got := b.changes(); !slices.Equal(got, changes) {
			t.Errorf("%s the events are %q, want %q", when, got, changes)
		}
	}
	steps := func(n int, apart time.Duration) {
		t.Helper()
		for range n {
			b.advance(apart)
			b.trigger(t)
			assert.Check(t, b.sync(t))
		}
	}
	b.cloud.lists(three, up("az1", "az2"))
	steps(10, 0) // as events may ask for
	expect("at once", "true")
	steps(1, poll)
	expect("at the second probe", "true")
	b.cloud.lists(up("az1", "az2"), up("az1", "az2"))
	steps(1, poll)
	b.cloud.lists(three, up("az1", "az2"))
	steps(settleProbes-1, poll)
	expect("after a probe that disagreed", "true")
	b.cloud.fail(openstack.CloudUnreachable)
	steps(1, poll)
	b.cloud.lists(three, up("az1", "az2"))
	steps(settleProbes-1, poll)
	expect("after a probe that failed", "true")
	steps(1, poll)
	expect("in the end", "false", because)
	b.cloud.lists(three, append(up("az1", "az2"), down("az3")...))
	b.settle(t)
	expect("while the new volume zone is not in service", "false", because)
	b.cloud.lists(three, three)
	b.settle(t)
	expect("when it is", "true", because,
		"enable_topology of cloud-conf changes from false to true because of compute "+
			"zones az1, az2, az3 -> az1, az2, az3; volume zones az1, az2 -> az1, az2, az3")
}

func TestContradictionIsProbedAtTheNextPoll(t *testing.T) {
	t.Parallel()
	b := deploys(t, true)
	b.cloud.offer(false)
	b.advance(zonesInterval)
	for range settleProbes {
		assert.Check(t, b.sync(t))
		b.advance(poll)
	}
	assert.Check(t, is.Equal(b.data(t, flavour.Guest)[topologyKey], "false"), topologyKey)
	probes := b.cloud.probes
	if err := b.sync(t); err != nil || b.cloud.probes != probes {
		t.Errorf("%d probes after the change, error %v", b.cloud.probes-probes, err)
	}
}

func TestFirstProbeKeepsTheTopologyOfAnEarlierOperator(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		before          string
		compute, volume []openstack.Zone
	}{
		{"true", up("az1", "az2"), append(up("az1"), down("az2")...)},
		{"false", append(up("az1"), down("az2")...), up("az1")},
		{"true", up("az1"), up("nova")}, // for as long as one probe may be wrong
	} {
		b := newFixture(t, standalone(written(test.before)))
		b.cloud.lists(test.compute, test.volume)
		assert.Check(t, b.sync(t))
		if writes := b.writes(); len(writes) > 0 || b.data(t, flavour.Guest)[topologyKey] != test.before {
			t.Errorf("%v: the first probe leads to writes: %v", test, writes)
		}
	}
}

// The zones decide as soon as the administrator removes the choice, also after a restart.
func TestChoiceOfTheAdministratorIsNotTakenForTheZones(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone(
		written("false"), userObject(userConfigMap, keys{userTopologyKey: "false"})))
	assert.NilError(t, b.sync(t))
	b.put(t, nil)
	assert.NilError(t, b.sync(t))
	if got := b.data(t, flavour.Guest)[topologyKey]; got != "true" {
		t.Errorf("%s is %q, want that of the zones", topologyKey, got)
	}
	b.put(t, keys{userTopologyKey: "false"})
	assert.NilError(t, b.sync(t))
	want := []string{
		"enable_topology of cloud-conf changes from false to true because of compute " +
			"zones a; volume zones a",
		"enable_topology of cloud-conf changes from true to false because of key enable_topology of " +
			"ConfigMap openshift-config/cinder-csi-config",
	}
	if got := b.changes(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
