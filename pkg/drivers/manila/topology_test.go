package manila

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/zones"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// zoneCloud lists these zones, or fails.
type zoneCloud struct {
	zones.Cloud

	compute, share []openstack.Zone
	err            error
	lists          int
}

func (z *zoneCloud) ComputeZones(context.Context) ([]openstack.Zone, error) {
	return z.compute, z.err
}

func (z *zoneCloud) ShareZones(context.Context) ([]openstack.Zone, error) {
	z.lists++
	return z.share, z.err
}

func zonesOf(names ...string) []openstack.Zone {
	var found []openstack.Zone
	for _, name := range names {
		found = append(found, openstack.Zone{Name: name, Available: true})
	}
	return found
}

// zoneBench runs the operator of a flavour whose driver may be deployed.
type zoneBench struct {
	classBench

	cloud *zoneCloud
	clock *clocktesting.FakeClock
}

// topologyChoice returns the choices of the administrator with a topology.
func topologyChoice(topology string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: userConfigMap, Namespace: "openshift-config"},
		Data: map[string]string{choice.Key: "apiVersion: " + choice.APIVersion +
			"\nkind: ManilaConfig\ntopology: " + topology + "\n"},
	}
}

// newZoneBench returns a bench with choices and, unless it is nil, the arguments of the driver in
// the deployed pods. The zones of both services are equal.
func newZoneBench(t *testing.T, f flavour.Flavour, topology string, deployed []string) zoneBench {
	t.Helper()
	chosen := topologyChoice(topology)
	seed := clustertest.Seed{Flavour: f}
	controllers := Namespace
	if f == flavour.HyperShift {
		chosen.Namespace, controllers = hosted, hosted
	}
	seed.ControlPlane = append(seed.ControlPlane, chosen)
	if deployed != nil {
		workload := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: controllerName, Namespace: controllers},
		}
		workload.Spec.Template.Spec.Containers = []corev1.Container{
			{Name: driverContainer, Args: deployed},
		}
		seed.ControlPlane = append(seed.ControlPlane, workload)
	}
	if f != flavour.HyperShift { // one cluster
		seed.Guest, seed.ControlPlane = seed.ControlPlane, nil
	}
	fake, s := dependenciesOf(t, seed)
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	s.Clock, s.Settings.PollInterval = clock, time.Minute
	b := zoneBench{
		classBench: classBench{storageClassController: newClasses(s), fake: fake},
		cloud:      &zoneCloud{compute: zonesOf("a", "b", "c"), share: zonesOf("c", "b", "a")},
		clock:      clock,
	}
	b.topology.tracker.Connect = func(context.Context) (zones.Cloud, error) { return b.cloud, nil }
	fake.Start(t)
	fake.Guest.ClearActions()
	return b
}

// probe sends a probe a minute later, and passes share types to the controller.
func (b zoneBench) probe(types ...string) error {
	b.clock.Step(time.Minute)
	request := b.topology.after(listShareTypes(b.topology.choices, lister{types: types}.ShareTypes))
	found, availability, err := request(context.Background())
	b.setShareTypes(cloudprobe.Result[[]openstack.Type]{
		Found: found, Availability: availability, Err: err,
	})
	return err
}

// arguments returns those that the driver gets in a workload.
func (b zoneBench) arguments() ([]string, error) {
	d := &appsv1.DaemonSet{}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "other"}, {Name: driverContainer}}
	err := b.topology.hook().DaemonSet(nil, d)
	return d.Spec.Template.Spec.Containers[1].Args, err
}

func (b zoneBench) isOn(t *testing.T, want bool, when string) {
	t.Helper()
	got, err := b.arguments()
	assert.NilError(t, err, when)
	assert.Check(t, is.Equal(len(got) == 1 && got[0] == "--with-topology", want), when)
}

func TestTopologyOfSharesIsChosenOrThatOfTheZones(t *testing.T) {
	t.Parallel()
	for _, f := range []flavour.Flavour{flavour.Standalone, flavour.HyperShift} {
		for chosen, want := range map[string]bool{
			"": false, choice.Disabled: false, choice.Enabled: true, choice.Auto: true,
		} {
			b := newZoneBench(t, f, chosen, nil)
			assert.NilError(t, b.probe("gold"))
			b.isOn(t, want, string(f)+" "+chosen)
			assert.Check(t, is.Equal(b.cloud.lists > 0, chosen == choice.Auto), "requests for %q", chosen)
		}
	}
}

// Zones turn topology on after three probes that agree. They never turn it off, because a zone that
// Manila does not list may be in maintenance.
func TestTopologyOfSharesIsSteady(t *testing.T) {
	t.Parallel()
	for _, was := range []bool{true, false} {
		args := []string{"--v=2"}
		if was {
			args = append(args, withTopology)
		}
		b := newZoneBench(t, flavour.HyperShift, choice.Auto, args)
		b.isOn(t, was, "before the first probe of a process")
		b.cloud.err = errors.New("HTTP 503")
		assert.NilError(t, b.probe("gold"), "share types do not depend on the zones")
		b.isOn(t, was, "in an outage")
		assert.Check(t, is.Contains(b.topology.remarks(b.Controller)[0], "cannot be listed: HTTP 503"))
		b.cloud.err = nil
		b.cloud.compute[0].Available = false
		for probe := range zones.Settle {
			b.isOn(t, was, "before three probes agree")
			assert.NilError(t, b.probe("gold"), "%d", probe)
		}
		b.isOn(t, true, "zones of shares serve all zones of servers")
		b.staysOn(t)
	}
}

// staysOn checks that topology stays on in this process and the next one, with a remark.
func (b zoneBench) staysOn(t *testing.T) {
	t.Helper()
	restarted := newZoneBench(t, flavour.HyperShift, choice.Auto, []string{withTopology})
	for _, test := range []struct {
		compute, share []openstack.Zone
		remark         string
	}{
		{zonesOf("a", "b", "c"), zonesOf("a"), "compute zones b, c get no new shares"},
		{zonesOf("a", "b", "c"), nil, "the zones cannot be listed: OpenStack's shared file system"},
		{zonesOf("a", "new"), zonesOf("a", "b", "c"), "compute zones new get no new shares"},
		{zonesOf("a", "z 1"), zonesOf("a", "z 1"), `compute zones "z 1" get no new shares`},
		{append(zonesOf("a"), openstack.Zone{Name: "b"}), zonesOf("a"), ""},
	} {
		for _, process := range []zoneBench{b, restarted} {
			process.cloud.compute, process.cloud.share = test.compute, test.share
			process.clock.Step(zones.Interval)
			for range zones.Settle + 1 {
				assert.NilError(t, process.probe("gold"))
			}
			process.isOn(t, true, test.remark)
			got := strings.Join(process.topology.remarks(process.Controller), "")
			assert.Check(t, is.Equal(got == "", test.remark == ""), got)
			assert.Check(t, is.Contains(got, test.remark))
		}
	}
}

// After a choice of the administrator, the zones decide again.
func TestAutoForgetsWhatTheZonesDecidedEarlier(t *testing.T) {
	t.Parallel()
	b := newZoneBench(t, flavour.Standalone, choice.Auto, nil)
	assert.NilError(t, b.probe("gold"))
	b.isOn(t, true, "equal zones")
	b.cloud.share = zonesOf("a")
	for _, chosen := range []string{choice.Disabled, choice.Auto} {
		clustertest.Put(t, b.fake.Guest, topologyChoice(chosen))
		clustertest.Eventually(t, func() bool {
			return b.topology.choices.Config().Topology == chosen
		}, "the cache")
		assert.NilError(t, b.probe("gold"))
		b.isOn(t, false, chosen)
	}
}

func TestDriverWaitsForTheZones(t *testing.T) {
	t.Parallel()
	b := newZoneBench(t, flavour.Standalone, choice.Auto, nil)
	b.cloud.share = nil
	assert.ErrorContains(t, b.probe("gold"), "shared file system service (Manila)")
	_, err := b.arguments()
	assert.ErrorIs(t, err, errNoDecision)
	b.writes(t)
	b.cloud.share, b.cloud.compute = zonesOf("a", "zone 1"), zonesOf("a", "zone 1")
	assert.NilError(t, b.probe("gold"))
	b.isOn(t, false, "no label can hold the name of a zone")
	assert.Check(t, is.Contains(b.topology.remarks(b.Controller)[0], `it is off: node labels cannot`))
}

func TestClassInAZoneWithoutServersGetsAZoneOfBoth(t *testing.T) {
	t.Parallel()
	b := newZoneBench(t, flavour.Standalone, choice.Auto+"\nclass: {availability: ceph}", nil)
	b.cloud.compute, b.cloud.share = zonesOf("a"), zonesOf("a", "ceph")
	assert.NilError(t, b.probe("gold"))
	assert.Check(t, is.Contains(strings.Join(b.topology.remarks(b.Controller), ""),
		`class.availability: "ceph" is no zone of servers, so no node can use the shares: use one of a`))
}

func TestStorageClassesWithTopology(t *testing.T) {
	t.Parallel()
	b := newZoneBench(t, flavour.Standalone, choice.Enabled+
		"\nclasses: [{type: gold, name: gold-b, availability: b}]", nil)
	clustertest.Put(t, b.fake.Guest, wanted("csi-manila-old", "old"))
	clustertest.Eventually(t, func() bool { return len(b.Selected()) == 1 }, "the cache")
	assert.NilError(t, b.probe("gold", "old"))
	b.fake.Guest.ClearActions()
	b.writes(t, "create storageclasses/csi-manila-gold", "create storageclasses/gold-b")
	b.writes(t)
	all := map[string]*storagev1.StorageClass{}
	for _, class := range b.fake.StorageClasses(t) {
		all[class.Name] = class
		assert.Check(t, is.Equal(*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer,
			class.Name != "csi-manila-old"), class.Name)
	}
	assert.Check(t, is.Equal(all["csi-manila-gold"].Parameters["autoTopology"], "true"))
	assert.Check(t, is.Len(all["csi-manila-gold"].AllowedTopologies, 0))
	assert.Check(t, is.Equal(all["gold-b"].Parameters["availability"], "b"))
	requirement := all["gold-b"].AllowedTopologies[0].MatchLabelExpressions[0]
	assert.Check(t, is.Equal(requirement.Key, "topology.manila.csi.openstack.org/zone"))
	assert.Check(t, slices.Equal(requirement.Values, []string{"b"}))
	assert.Check(t, maps.Equal(all["csi-manila-old"].Parameters, wanted("", "old").Parameters))
	remarks := b.topology.remarks(b.Controller)
	assert.Assert(t, is.Len(remarks, 1), "%v", remarks)
	assert.Check(t, is.Contains(remarks[0], "StorageClass csi-manila-old was created with "))
}
