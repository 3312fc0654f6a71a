package cinder

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Each step is one sync.
func TestComputeZonesAreListedWhenTheyAreOutdated(t *testing.T) {
	t.Parallel()
	type step struct {
		after   time.Duration
		key     string
		prepare func(*fakeCloud)
		probes  int
	}
	const poll = factory.DefaultQueueKey
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
			{time.Second, cloudprobe.TriggerKey, nil, 2},
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
				b.probe(t, s.key)
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
	b.probe(t, factory.DefaultQueueKey)
	compute, volume := b.cloud.probes, b.cloud.volumeLists
	for range time.Hour / poll {
		b.advance(poll)
		b.probe(t, factory.DefaultQueueKey)
	}
	compute, volume = b.cloud.probes-compute, b.cloud.volumeLists-volume
	if compute != 6 || volume != 60 {
		t.Errorf("%d lists of compute zones and %d of volume zones, want 6 and 60", compute, volume)
	}
}

func TestOutageOfVolumesIsReportedAtTheNextPoll(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.probe(t, factory.DefaultQueueKey)
	for _, step := range []struct {
		cloud func()
		want  string
	}{
		{func() { b.cloud.fail(openstack.CloudUnreachable) }, "False CloudUnreachable"},
		{func() { b.cloud.offer(true) }, "True AsExpected"},
	} {
		step.cloud()
		b.advance(poll)
		b.probe(t, factory.DefaultQueueKey)
		if got := b.condition(t, reachableType); got != step.want {
			t.Errorf("the condition is %q, want %q", got, step.want)
		}
	}
}

func TestProbesOfZonesHaveADeadline(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.probe(t, factory.DefaultQueueKey)
	if !b.cloud.bounded {
		t.Error("the request has no deadline")
	}
	b.cloud.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.prober.Sync(ctx, keyed{key: cloudprobe.TriggerKey}); err != nil {
		t.Fatal(err)
	}
	if status := b.zones.current(); !errors.Is(status.err, context.Canceled) || !status.decided {
		t.Errorf("after a cancelled request the status is %+v, want it to be known still", status)
	}
}

func TestUnmanagedIsNotProbed(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	unmanaged := opv1.OperatorSpec{ManagementState: opv1.Unmanaged}
	b.State.Set(t, &opv1.ClusterCSIDriver{Spec: opv1.ClusterCSIDriverSpec{OperatorSpec: unmanaged}})
	b.zones.onChange = func() { t.Error("changes without a probe") }
	b.probe(t, factory.DefaultQueueKey)
	b.probe(t, cloudprobe.TriggerKey)
	if conditions := b.State.Conditions(t); b.cloud.probes != 0 || len(conditions) != 0 {
		t.Errorf("%d probes, conditions %v, want none", b.cloud.probes, conditions)
	}
}

func TestZoneTrackerNotifiesOnlyOnChange(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	changes := 0
	b.zones.onChange = func() { changes++ }
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
		b.probe(t, cloudprobe.TriggerKey)
		if changes != step.want {
			t.Errorf("step %d: %d changes, want %d", i+1, changes, step.want)
		}
	}
}

func TestZoneTrackerKeepsTheLastDecision(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	if status := b.zones.current(); status.probed || status.decided {
		t.Errorf("before any probe the status is %+v", status)
	}
	b.probe(t, cloudprobe.TriggerKey)
	if status := b.zones.current(); !status.probed || !status.decided || !status.topology ||
		status.err != nil {
		t.Errorf("the status is %+v", status)
	}
	b.cloud.fail(openstack.CloudUnreachable)
	began := b.clock.Now()
	for range 3 {
		b.probe(t, cloudprobe.TriggerKey)
		if status := b.zones.current(); !status.decided || !status.topology || status.err == nil ||
			!status.failingSince.Equal(began) {
			t.Errorf("when the cloud fails the status is %+v", status)
		}
		b.advance(time.Minute)
	}
	b.cloud.offer(false)
	for range settleProbes {
		b.probe(t, cloudprobe.TriggerKey)
		b.advance(poll)
	}
	if status := b.zones.current(); !status.decided || status.topology || status.err != nil ||
		!status.failingSince.IsZero() {
		t.Errorf("when the cloud has recovered the status is %+v", status)
	}
}

func TestStartOfAnOutageSurvivesARestart(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.cloud.fail(openstack.AuthenticationFailed)
	b.probe(t, factory.DefaultQueueKey)
	if got := b.condition(t, reachableType); got != "False AuthenticationFailed" {
		t.Fatalf("the condition is %q", got)
	}
	began := b.clock.Now()
	b.advance(time.Hour)
	b.restart()
	if err := b.config.Sync(t.Context(), factory.NewSyncContext("test", b.events)); err != nil {
		t.Fatal(err)
	}
	if got := b.condition(t, reachableType); got != "False AuthenticationFailed" {
		t.Errorf("before the first probe of another run the condition is %q", got)
	}
	b.probe(t, factory.DefaultQueueKey)
	b.advance(poll)
	b.probe(t, factory.DefaultQueueKey)
	if status := b.zones.current(); !status.failingSince.Equal(began) {
		t.Errorf("after a restart the cloud fails since %v, want %v", status.failingSince, began)
	}
	b.cloud.offer(true)
	b.advance(poll)
	b.probe(t, factory.DefaultQueueKey)
	if got := b.condition(t, reachableType); got != "True AsExpected" {
		t.Errorf("the condition of a cloud that recovered is %q", got)
	}
}

func TestUnknownErrorCountsAsUnreachable(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.cloud.err = errors.New("other")
	b.probe(t, factory.DefaultQueueKey)
	if got := b.condition(t, reachableType); got != "False CloudUnreachable" {
		t.Errorf("the condition is %q", got)
	}
}

// Only ConfigMaps with configuration of the cloud trigger a reconcile.
func TestConfigurationOfTheCloudIsSelected(t *testing.T) {
	t.Parallel()
	for f, seed := range seeds() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			seed.Config = objects{infrastructureWith("installed-with", "config")}
			b := newFixture(t, seed)
			for _, test := range []struct {
				object any
				want   bool
			}{
				{userObject("installed-with", nil), f == flavour.Standalone},
				{userObject("openstack-cloud-config", nil), f == flavour.HyperShift},
				{userObject("cloud-provider-config", nil), f == flavour.Standalone},
				{userObject("another", nil), false},
				{cache.DeletedFinalStateUnknown{Obj: userObject("another", nil)}, true},
			} {
				if got := b.config.sources.isCloudConfig(test.object); got != test.want {
					t.Errorf("isCloudConfig(%v) is %v", test.object, got)
				}
			}
			go b.prober.Run(t.Context(), 1)
			b.await(t, "the first probes", func() bool { return b.cloud.count() > 0 })
			installed := map[flavour.Flavour]string{
				flavour.Standalone: "installed-with", flavour.HyperShift: "openstack-cloud-config",
			}
			for _, name := range []string{userConfigMap, installed[f]} {
				before := b.cloud.count()
				b.putConfigMap(t, name, keys{"a": "b"})
				b.await(t, "the probe that "+name+" asks for", func() bool { return b.cloud.count() > before })
			}
		})
	}
}
