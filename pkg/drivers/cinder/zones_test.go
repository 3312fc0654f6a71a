package cinder

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// TestProbes tells when the cloud is asked. Each step is one sync.
func TestProbes(t *testing.T) {
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
			{zonesInterval - 3*time.Minute, poll, nil, 1},
			{time.Minute, poll, nil, 2}, // a minute later it would be too old
			{time.Minute, poll, nil, 2},
		},
		"after a failure at each interval": {
			{0, poll, failing, 1},
			{time.Minute, poll, nil, 2},
			{time.Minute, poll, func(c *fakeCloud) { c.offer(true) }, 3},
			{time.Minute, poll, nil, 3},
		},
		"when the access changed": {
			{0, poll, nil, 1},
			{time.Second, poll, func(c *fakeCloud) { c.changed = true }, 2},
			{time.Second, poll, func(c *fakeCloud) { c.changed = false }, 2},
		},
		"when the Secret changed": {
			{0, poll, nil, 1},
			{time.Second, changedKey, nil, 2},
			{time.Second, poll, nil, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, standalone())
			for i, s := range steps {
				if s.prepare != nil {
					s.prepare(b.cloud)
				}
				b.pass(s.after)
				b.probe(t, s.key)
				if b.cloud.probes != s.probes {
					t.Errorf("step %d: %d probes, want %d", i+1, b.cloud.probes, s.probes)
				}
			}
		})
	}
}

func TestProbesHaveADeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t, standalone())
	b.probe(t, factory.DefaultQueueKey)
	if !b.cloud.bounded {
		t.Error("the question has no deadline")
	}
	b.cloud.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.zones.sync(ctx, keyed{factory.NewSyncContext("test", b.events), changedKey}); err != nil {
		t.Fatal(err)
	}
	if answer := b.zones.current(); !errors.Is(answer.err, context.Canceled) || !answer.known {
		t.Errorf("after a question that was cut off the answer is %+v, want it to be known still", answer)
	}
}

// TestUnmanagedIsNotProbed also holds for a Secret that changes, and for conditions.
func TestUnmanagedIsNotProbed(t *testing.T) {
	t.Parallel()
	b := newBench(t, standalone())
	b.State.Set(t, &opv1.ClusterCSIDriver{Spec: opv1.ClusterCSIDriverSpec{OperatorSpec: opv1.OperatorSpec{ManagementState: opv1.Unmanaged}}})
	b.zones.heard = func() { t.Error("news without a probe") }
	b.probe(t, factory.DefaultQueueKey)
	b.probe(t, changedKey)
	if conditions := b.State.Conditions(t); b.cloud.probes != 0 || len(conditions) != 0 {
		t.Errorf("%d probes, conditions %v, want none", b.cloud.probes, conditions)
	}
}

// TestNews is about what wakes the configuration: each probe is heard of only when it brings something else.
func TestNews(t *testing.T) {
	t.Parallel()
	b := newBench(t, standalone())
	news := 0
	b.zones.heard = func() { news++ }
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
		b.pass(poll)
		step.cloud()
		b.probe(t, changedKey)
		if news != step.want {
			t.Errorf("step %d: heard %d times, want %d", i+1, news, step.want)
		}
	}
}

// TestAnswers keeps the last answer, and the time of the first failure after it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, standalone())
	if answer := b.zones.current(); answer.asked || answer.known {
		t.Errorf("before any probe the answer is %+v", answer)
	}
	b.probe(t, changedKey)
	if answer := b.zones.current(); !answer.asked || !answer.known || !answer.topology || answer.err != nil {
		t.Errorf("the answer is %+v", answer)
	}
	b.cloud.fail(openstack.CloudUnreachable)
	began := b.clock.Now()
	for range 3 {
		b.probe(t, changedKey)
		if answer := b.zones.current(); !answer.known || !answer.topology || answer.err == nil || !answer.failingSince.Equal(began) {
			t.Errorf("when the cloud fails the answer is %+v", answer)
		}
		b.pass(time.Minute)
	}
	b.cloud.offer(false)
	for range settleProbes {
		b.probe(t, changedKey)
		b.pass(poll)
	}
	if answer := b.zones.current(); !answer.known || answer.topology || answer.err != nil || !answer.failingSince.IsZero() {
		t.Errorf("when the cloud has recovered the answer is %+v", answer)
	}
}

// TestReachable keeps the condition over a restart, with the time since which the cloud fails.
func TestReachable(t *testing.T) {
	t.Parallel()
	b := newBench(t, standalone())
	b.cloud.fail(openstack.AuthenticationFailed)
	b.probe(t, factory.DefaultQueueKey)
	if got := b.condition(t, reachableType); got != "False AuthenticationFailed" {
		t.Fatalf("the condition is %q", got)
	}
	began := b.clock.Now()
	b.pass(time.Hour)
	b.restart()
	if err := b.config.sync(t.Context(), factory.NewSyncContext("test", b.events)); err != nil {
		t.Fatal(err)
	}
	if got := b.condition(t, reachableType); got != "False AuthenticationFailed" {
		t.Errorf("before the first probe of another run the condition is %q", got)
	}
	b.probe(t, factory.DefaultQueueKey)
	b.pass(poll)
	b.probe(t, factory.DefaultQueueKey)
	if answer := b.zones.current(); !answer.failingSince.Equal(began) {
		t.Errorf("after a restart the cloud fails since %v, want %v", answer.failingSince, began)
	}
	b.cloud.offer(true)
	b.probe(t, factory.DefaultQueueKey)
	if got := b.condition(t, reachableType); got != "True AsExpected" {
		t.Errorf("the condition of a cloud that recovered is %q", got)
	}
}

func TestAnErrorThatIsNoneOfTheClouds(t *testing.T) {
	t.Parallel()
	b := newBench(t, standalone())
	b.cloud.err = errors.New("other")
	b.probe(t, factory.DefaultQueueKey)
	if got := b.condition(t, reachableType); got != "False CloudUnreachable" {
		t.Errorf("the condition is %q", got)
	}
}

// TestSecretEvents checks that an event of the Secret wakes the real controllers, one probe at a time.
func TestSecretEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t, standalone())
	go b.zones.Run(t.Context(), 1)
	probes := func() int {
		b.cloud.mu.Lock()
		defer b.cloud.mu.Unlock()
		return b.cloud.probes
	}
	b.await(t, "the first probes", func() bool { return probes() > 0 && b.zones.Name() != "" })
	before := probes()
	b.putCredentials(t, map[string]string{cloudsKey: clouds("another")})
	b.await(t, "the Secret's change", func() bool { return probes() > before })
}

// TestUserConfigEvents has the real controller hear of what those who own the control plane configure, and of no other ConfigMap.
func TestUserConfigEvents(t *testing.T) {
	t.Parallel()
	for f, seed := range seeds() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			seed.Config = []runtime.Object{infrastructureWith("installed-with", "config")}
			b := newBench(t, seed)
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
			go b.zones.Run(t.Context(), 1)
			probes := func() int {
				b.cloud.mu.Lock()
				defer b.cloud.mu.Unlock()
				return b.cloud.probes
			}
			b.await(t, "the first probes", func() bool { return probes() > 0 })
			installed := map[flavour.Flavour]string{flavour.Standalone: "installed-with", flavour.HyperShift: "openstack-cloud-config"}
			for _, name := range []string{userConfigMap, installed[f]} {
				before := probes()
				b.putConfigMap(t, name, map[string]string{"a": "b"})
				b.await(t, "the probe that "+name+" asks for", func() bool { return probes() > before })
			}
		})
	}
}
