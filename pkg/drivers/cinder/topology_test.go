package cinder

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

func up(names ...string) []openstack.Zone {
	var zones []openstack.Zone
	for _, name := range names {
		zones = append(zones, openstack.Zone{Name: name, Available: true})
	}
	return zones
}

func down(names ...string) []openstack.Zone {
	zones := up(names...)
	for i := range zones {
		zones[i].Available = false
	}
	return zones
}

func manyNames(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("zone-%d", i)
	}
	return names
}

// The results of lists: on and off are valid whichever zone is in maintenance. The other results
// are valid only for a driver that was never deployed; unknown is no result for it either.
const (
	on, off           = "on", "off"
	firstOn, firstOff = "on at first", "off at first"
	unknown, noZones  = "unknown", "no answer"
)

func meaning(compute, volume []openstack.Zone) string {
	zones, err := newZoneLists(compute, volume)
	if err != nil {
		return noZones
	}
	topology, err := zones.first()
	_, certain := zones.certain()
	switch {
	case err != nil:
		return unknown
	case certain:
		return map[bool]string{true: on, false: off}[topology]
	}
	return map[bool]string{true: firstOn, false: firstOff}[topology]
}

func TestZonesDetermineTopology(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("z", 64)
	upDown := func(available, other string) []openstack.Zone {
		return append(up(available), down(other)...)
	}
	for name, test := range map[string]struct {
		compute, volume []openstack.Zone
		want            string
	}{
		"equal, in another order":          {up("a", "b", "c"), up("c", "a", "b"), on},
		"more zones for volumes":           {up("a"), up("a", "b"), on},
		"as many, one differs":             {up("a", "b"), up("a", "c"), off},
		"no compute zone":                  {nil, up("a"), noZones},
		"no volume zone":                   {up("a"), nil, noZones},
		"no available compute zone":        {down("a"), up("a"), on},
		"none available, none for volumes": {down("a"), up("b"), unknown},
		"volume zone in maintenance":       {up("a"), down("a"), unknown},
		"one of two volume zones down":     {up("a", "b"), upDown("a", "b"), firstOff},
		"compute zone down, none for it":   {upDown("a", "b"), up("a"), firstOn},
		"both down in the same zone":       {upDown("a", "b"), upDown("a", "b"), firstOn},
		"other volume zone down":           {up("a"), upDown("a", "b"), on},
		"no volumes for one, one down":     {append(up("c"), upDown("a", "b")...), up("a"), off},
		"compute name up and down":         {upDown("a", "a"), up("a"), on},
		"volume name down and up":          {up("a"), append(down("a"), up("a")...), on},
		"capitals, and all characters":     {up("AZ-1", "b_2.C"), up("AZ-1", "b_2.C"), on},
		"names differ in case":             {up("AZ1"), up("az1"), off},
		"space in one of two":              {up("a", "zone 1"), up("a", "zone 1"), off},
		"space, for volumes alone":         {up("a"), up("a", "zone 1"), on},
		"space, compute zone down":         {upDown("a", "z 1"), up("a", "z 1"), firstOn},
		"63 characters":                    {up(long[1:]), up(long[1:]), on},
		"64 characters":                    {up(long), up(long), off},
	} {
		assert.Check(t, is.Equal(meaning(test.compute, test.volume), test.want), name)
	}
}

// The test makes any zones of a cloud unavailable.
func TestTopologyIsImmuneToMaintenance(t *testing.T) {
	t.Parallel()
	const zones = 3
	all := append(manyNames(zones-1), "no label")
	for listed := range 1 << (2 * zones) {
		compute, volume := up(pick(all, listed)...), up(pick(all, listed>>zones)...)
		healthy := meaning(compute, volume)
		for away := range 1 << (2 * zones) {
			for i := range compute {
				compute[i].Available = away&(1<<i) == 0
			}
			for i := range volume {
				volume[i].Available = away&(1<<(zones+i)) == 0
			}
			got := meaning(compute, volume)
			assert.Assert(t, got == healthy || got != on && got != off && healthy != noZones,
				"topology is %s with all zones in service, and %s with compute %v, volume %v", healthy, got,
				compute, volume)
		}
	}
}

// pick returns the names whose bits are set.
func pick(names []string, bits int) []string {
	var picked []string
	for i, name := range names {
		if bits&(1<<i) != 0 {
			picked = append(picked, name)
		}
	}
	return picked
}

func TestZonesInMessages(t *testing.T) {
	t.Parallel()
	lists := func(compute, volume []string) zoneLists {
		zones, err := newZoneLists(up(compute...), up(volume...))
		assert.NilError(t, err)
		return zones
	}
	small := lists([]string{"b", "a"}, []string{"a"})
	for _, test := range []struct {
		zones, before zoneLists
		want          string
	}{
		{small, zoneLists{}, "compute zones a, b; volume zones a"},
		{small, lists([]string{"a"}, []string{"a"}), "compute zones a -> a, b; volume zones a -> a"},
		{
			lists([]string{"a\n\x1b[2J", "zone \u00fc"}, []string{"a"}),
			zoneLists{},
			`compute zones "a\n\x1b[2J", "zone ü"; volume zones a; node labels cannot hold the names ` +
				`of compute zones "a\n\x1b[2J", "zone ü"`,
		},
	} {
		assert.Check(t, is.Equal(test.zones.since(test.before), test.want))
	}
	many := lists(manyNames(5000), manyNames(5000))
	got := many.since(many)
	assert.Check(t, len(got) <= 500 && strings.Contains(got, "4995 more"), "very many zones: %q", got)
}

// The zones are out of service for long, also while the operator restarts.
func TestMaintenanceDoesNotChangeTheTopology(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		topology        bool
		compute, volume []openstack.Zone
	}{
		"volume services of a zone":          {true, up("az1", "az2"), append(up("az1"), down("az2")...)},
		"all compute services, topology off": {false, down("az1", "az2"), up("az1")},
	} {
		b := deployed(t, test.topology)
		b.cloud.lists(test.compute, test.volume)
		b.settle(t)
		b.restart()
		b.settle(t)
		assert.Check(t, is.Equal(b.condition(t, reachableType), "True AsExpected"), name)
		assert.Check(t, is.Len(append(b.writes(), b.messages(topologyChanged)...), 0), name)
	}
}

// deployed returns a fixture with a deployed driver and two compute zones.
func deployed(t *testing.T, topology bool) *fixture {
	t.Helper()
	b := newFixture(t, standalone())
	b.cloud.lists(up("az1", "az2"), up("az1"))
	if topology {
		b.cloud.volume = b.cloud.compute
	}
	assert.NilError(t, b.sync(t))
	b.writes()
	return b
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
	clustertest.Eventually(t, b.config.written, "the configuration")
	assert.Check(t, is.Equal(b.data(flavour.Guest)[topologyKey], "true"))
	assert.Check(t, refused.Load())
	assert.Check(t, is.Len(b.writes(), 0))
}

// The event, the condition and the administrator's report name the zones.
func TestZonesThatNoNodeLabelCanHold(t *testing.T) {
	t.Parallel()
	const fault = `node labels cannot hold the names of compute zones "Failure domain 2"`
	const configured = "The configuration of the driver is written"
	b := newFixture(t, standalone(written("true")))
	zones := up("az1", "Failure domain 2")
	b.cloud.lists(zones, zones)
	assert.NilError(t, b.sync(t))
	assert.Check(t, is.Len(b.writes(), 0), "one probe may be wrong, and the first of a process too")
	b.settle(t)
	want := []string{`enable_topology of cloud-conf changes from true to false because of compute ` +
		`zones "Failure domain 2", az1; volume zones "Failure domain 2", az1; ` + fault}
	assert.Check(t, is.DeepEqual(want, b.messages(topologyChanged)))
	b.restart()
	b.settle(t)
	assert.Check(t, is.Equal(b.State.Condition(t, progressingType).Message,
		configured+". Topology is off: "+fault))
	b.put(t, keys{userTopologyKey: "false"})
	b.settle(t)
	assert.Check(t, is.Equal(b.State.Condition(t, progressingType).Message, configured))
}

func TestEmptyZoneListsKeepTopology(t *testing.T) {
	t.Parallel()
	for service, zones := range map[string][2][]openstack.Zone{
		"compute service (Nova)": {nil, up("az1", "az2")}, "block storage service (Cinder)": {up("az1")},
	} {
		b := deployed(t, true)
		b.cloud.lists(zones[0], zones[1])
		b.settle(t)
		assert.Check(t, is.Equal(b.condition(t, reachableType), "False CloudUnreachable"))
		assert.Check(t, is.ErrorContains(b.zones.current().err, service))
		assert.Check(t, is.Len(b.writes(), 0), service)
	}
	for _, zones := range [][2][]openstack.Zone{{nil, up("a")}, {down("a"), up("b")}} {
		b := newFixture(t, standalone())
		b.cloud.lists(zones[0], zones[1])
		b.settle(t)
		assert.Check(t, is.Equal(b.condition(t, progressingType), "True WaitingForOpenStack"))
		assert.Check(t, is.Len(b.writes(), 0), "%v", zones)
	}
}

func TestTopologyChangesAfterConsecutiveProbes(t *testing.T) {
	t.Parallel()
	const changes = "enable_topology of cloud-conf changes from "
	const because = changes + "true to false because of compute " +
		"zones az1, az2 -> az1, az2, az3; volume zones az1, az2 -> az1, az2"
	b := deployed(t, true)
	two, three := up("az1", "az2"), up("az1", "az2", "az3")
	expect := func(when, want string, changes ...string) {
		t.Helper()
		assert.Check(t, is.Equal(b.data(flavour.Guest)[topologyKey], want), when)
		assert.Check(t, is.DeepEqual(changes, b.messages(topologyChanged)), when)
	}
	probes := func(n int, apart time.Duration) {
		t.Helper()
		for range n {
			b.advance(apart)
			b.trigger(t)
			assert.NilError(t, b.sync(t))
		}
	}
	b.cloud.lists(three, two)
	probes(10, 0) // as events may ask for
	expect("at once", "true")
	probes(1, poll)
	expect("at the second probe", "true")
	b.cloud.lists(two, two)
	probes(1, poll)
	b.cloud.lists(three, two)
	probes(settleProbes-1, poll)
	expect("after a probe that disagreed", "true")
	b.cloud.fail(openstack.CloudUnreachable)
	probes(1, poll)
	b.cloud.lists(three, two)
	probes(settleProbes-1, poll)
	expect("after a probe that failed", "true")
	probes(1, poll)
	expect("in the end", "false", because)
	b.cloud.lists(three, append(up("az1", "az2"), down("az3")...))
	b.settle(t)
	expect("while the new volume zone is not in service", "false", because)
	b.cloud.lists(three, three)
	b.settle(t)
	expect("when it is", "true", because, changes+"false to true because of compute "+
		"zones az1, az2, az3 -> az1, az2, az3; volume zones az1, az2 -> az1, az2, az3")
}

// The zones decide as soon as the administrator removes the choice, also after a restart.
func TestChoiceOfTheAdministratorIsNotTakenForTheZones(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone(
		written("false"), userObject(userConfigMap, keys{userTopologyKey: "false"})))
	assert.NilError(t, b.sync(t))
	b.put(t, nil)
	assert.NilError(t, b.sync(t))
	assert.Check(t, is.Equal(b.data(flavour.Guest)[topologyKey], "true"))
	b.put(t, keys{userTopologyKey: "False"})
	assert.NilError(t, b.sync(t))
	want := []string{
		"enable_topology of cloud-conf changes from false to true because of compute " +
			"zones a; volume zones a",
		"enable_topology of cloud-conf changes from true to false because of key enable_topology of " +
			"ConfigMap openshift-config/cinder-csi-config",
	}
	assert.Check(t, is.DeepEqual(want, b.messages(topologyChanged)))
}
