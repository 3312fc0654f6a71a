package cinder

import (
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/zones"
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

// The operator starts while nobody may list cloud-conf, and a zone is in maintenance.
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
		assert.Check(t, is.ErrorContains(b.zones.Current().Err, service))
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
	probes(zones.Settle-1, poll)
	expect("after a probe that disagreed", "true")
	b.cloud.fail(openstack.CloudUnreachable)
	probes(1, poll)
	b.cloud.lists(three, two)
	probes(zones.Settle-1, poll)
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

func TestFieldTopologyIsAChoiceUnlessTheKeySaysOtherwise(t *testing.T) {
	t.Parallel()
	for field, want := range map[string][2]string{
		choice.Auto: {"true", "false"}, choice.Enabled: {"true", "false"},
		choice.Disabled: {"false", "false"},
	} {
		text := "apiVersion: " + choice.APIVersion + "\nkind: CinderConfig\ntopology: " + field + "\n"
		for i, own := range []keys{{choice.Key: text}, {choice.Key: text, userTopologyKey: "false"}} {
			b := newFixture(t, standalone(userObject(userConfigMap, own)))
			assert.NilError(t, b.sync(t))
			assert.Check(t, is.Equal(b.data(flavour.Guest)[topologyKey], want[i]), "%s, %v", field, own)
		}
	}
}
