package credential

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	namespace, hosted = "openshift-x", "clusters-a"
	acceptedCondition = "TestCredentialsAccepted"
	expiryCondition   = "TestCredentialsExpireSoon"
)

// fakeCloud accepts a set of passwords and reports when they expire.
type fakeCloud struct {
	accepted map[string]bool
	down     bool
	expiry   time.Time
	tries    []string
	asked    int
}

func (f *fakeCloud) open(secret openstack.Secret) Client {
	return &fakeClient{f, string(secret.Data[openstack.CloudsKey])}
}

type fakeClient struct {
	*fakeCloud
	password string
}

func (c *fakeClient) Try(ctx context.Context) error {
	c.tries = append(c.tries, c.password)
	if _, bounded := ctx.Deadline(); !bounded {
		return fmt.Errorf("an attempt has no deadline")
	}
	switch {
	case c.down:
		return &openstack.Error{Reason: openstack.CloudUnreachable, Message: "no answer"}
	case !c.accepted[c.password]:
		return &openstack.Error{Reason: openstack.AuthenticationFailed, Message: "refused"}
	}
	return nil
}

func (c *fakeClient) Expiry(context.Context) (time.Time, error) {
	c.asked++
	return c.expiry, nil
}

// fixture runs the sync function of a Watcher.
type fixture struct {
	*clustertest.Fake
	w      *Watcher
	t      *testing.T
	cloud  *fakeCloud
	clock  *clocktesting.FakeClock
	events events.InMemoryRecorder
	// registry contains the metrics of w.
	registry metrics.KubeRegistry
	rings    atomic.Int32
}

func newFixture(t *testing.T, f flavour.Flavour, passwords ...string) *fixture {
	t.Helper()
	b := &fixture{
		t: t, cloud: &fakeCloud{accepted: map[string]bool{}},
		clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)),
	}
	for _, password := range passwords {
		b.cloud.accepted[password] = true
	}
	b.Fake = clustertest.New(
		t, clustertest.Seed{Flavour: f, OperatorNamespace: hosted, DriverNamespace: namespace},
	)
	b.restart()
	b.Start(t)
	return b
}

// restart creates a new Watcher, as a new process does.
func (b *fixture) restart() {
	b.events = events.NewInMemoryRecorder("test", b.clock)
	b.w = New(Options{
		Cluster: b.Cluster, Events: b.events, Clock: b.clock, Service: "Test", Secret: "credentials",
		Open: b.cloud.open,
		Wait: 10 * time.Minute, Interval: time.Minute,
	})
	b.registry = metrics.NewKubeRegistry()
	if err := b.w.Metrics.RegisterWith(b.registry.Register); err != nil {
		b.t.Fatal(err)
	}
	_, _ = b.w.Informer().
		AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { b.rings.Add(1) }})
}

func content(password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "credentials",
		}, Data: map[string][]byte{openstack.CloudsKey: []byte(password)},
	}
}

// put writes a password to the Secret and waits for the cache.
func (b *fixture) put(password string) {
	b.t.Helper()
	secret := content(password)
	secret.Namespace = b.Namespaces.ControlPlane
	secrets := b.ControlPlane.CoreV1().Secrets(secret.Namespace)
	_, err := secrets.Update(b.t.Context(), secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(b.t.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(
		b.t.Context(),
		time.Millisecond,
		30*time.Second,
		true,
		func(context.Context) (bool, error) {
			current := b.w.source.Get()
			return current != nil && digestOf(current.Data) == digestOf(secret.Data), nil
		},
	)
	if err != nil {
		b.t.Fatal("the cache does not have the Secret")
	}
}

// sync returns the passwords that one sync sent to OpenStack.
func (b *fixture) sync() []string {
	b.t.Helper()
	before := len(b.cloud.tries)
	if err := b.w.Sync(b.t.Context(), factory.NewSyncContext("test", b.events)); err != nil {
		b.t.Fatal(err)
	}
	return b.cloud.tries[before:]
}

func (b *fixture) condition(name string) opv1.OperatorCondition {
	b.t.Helper()
	found := v1helpers.FindOperatorCondition(b.State.Conditions(b.t), name)
	if found == nil {
		b.t.Fatalf("there is no condition %s", name)
	}
	return *found
}

// expectCondition compares a condition; text is a part of its message.
func (b *fixture) expectCondition(name string, status opv1.ConditionStatus, reason, text string) {
	b.t.Helper()
	if c := b.condition(name); c.Status != status || c.Reason != reason ||
		!strings.Contains(c.Message, text) {
		b.t.Errorf(
			"%s is %s %s: %s; want %s %s with %q", name, c.Status, c.Reason, c.Message, status, reason, text,
		)
	}
}

// expectExpiry compares the metric of the expiry. Without a value the metric must be absent.
func (b *fixture) expectExpiry(want ...time.Duration) {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	var got []time.Duration
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			got = append(got, time.Duration(metric.GetGauge().GetValue())*time.Second)
		}
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("the metric of the expiry is %v, want %v", got, want)
	}
}

func (b *fixture) emitted() []string {
	var reasons []string
	for _, event := range b.events.Events() {
		reasons = append(reasons, event.Reason)
	}
	return reasons
}

func TestNewCredentialsWaitUntilOpenStackAcceptsThem(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		b := newFixture(t, f, "first", "third")
		b.put("first")
		if tries := b.sync(); !slices.Equal(tries, []string{"first"}) {
			t.Errorf("%s: tries are %q", f, tries)
		}
		b.expectCondition(acceptedCondition, opv1.ConditionTrue, "AsExpected", "/credentials")
		if b.w.Holds(content("first")) {
			t.Errorf("%s: what is accepted waits", f)
		}
		b.clock.Step(time.Minute)
		if tries := b.sync(); len(tries) > 0 {
			t.Errorf("%s: what is accepted is tried again: %q", f, tries)
		}

		b.put("second")
		if !b.w.Holds(content("second")) {
			t.Errorf("%s: new credentials do not wait to be tried", f)
		}
		rings := b.rings.Load()
		b.sync()
		b.expectCondition(
			acceptedCondition, opv1.ConditionFalse, "AuthenticationFailed",
			"refused. The driver keeps its old credentials until",
		)
		b.cloud.down = true
		b.clock.Step(time.Minute)
		b.sync()
		b.expectCondition(
			acceptedCondition, opv1.ConditionFalse, "CloudUnreachable",
			"no answer. The driver keeps its old credentials until",
		)
		if !b.w.Holds(content("second")) || b.rings.Load() == rings {
			t.Errorf("%s: refused credentials do not wait", f)
		}
		b.cloud.down, b.cloud.accepted["second"] = false, true
		rings = b.rings.Load()
		b.clock.Step(time.Minute)
		b.sync()
		b.expectCondition(acceptedCondition, opv1.ConditionTrue, "AsExpected", "")
		if b.w.Holds(content("second")) || b.rings.Load() == rings {
			t.Errorf("%s: accepted credentials wait, or controllers are not woken", f)
		}
		rings = b.rings.Load()
		b.put("third")
		b.sync()
		if b.w.Holds(content("third")) || b.rings.Load() == rings {
			t.Errorf("%s: credentials that are accepted at once wait, or controllers are not woken", f)
		}
		want := []string{
			"TestCredentialsNotAccepted", "TestCredentialsNotAccepted", "TestCredentialsAccepted",
		}
		if got := b.emitted(); !slices.Equal(got, want) {
			t.Errorf("%s: events are %q, want %q", f, got, want)
		}
	}
}

// TestCopyWaitsForTheWatchedSecret checks that pods of the guest cluster do not get credentials
// that nobody has tested if HyperShift writes its copy first. A copy that differs for good waits
// less.
func TestCopyWaitsForTheWatchedSecret(t *testing.T) {
	t.Parallel()
	b := newFixture(t, flavour.HyperShift, "first")
	b.put("first")
	b.sync()
	if !b.w.Holds(content("second")) {
		t.Error("a new copy does not wait for the watched Secret")
	}
	b.clock.Step(time.Second)
	b.put("second")
	b.sync()
	b.clock.Step(5 * time.Minute)
	if !b.w.Holds(content("second")) {
		t.Error("a refused copy does not wait")
	}
	if !b.w.Holds(content("other")) {
		t.Error("a copy that differs does not wait for a minute")
	}
	b.clock.Step(59 * time.Second)
	if !b.w.Holds(content("other")) {
		t.Error("a copy that differs does not wait for the whole minute")
	}
	rings := b.rings.Load()
	b.clock.Step(time.Second)
	b.sync() // the first since the copy is there: a login can take two minutes
	if b.w.Holds(content("other")) || b.rings.Load() == rings {
		t.Error("a copy that differs waits longer than a minute, or controllers are not woken")
	}

	b = newFixture(t, flavour.HyperShift)
	b.sync()
	if !b.w.Holds(content("other")) {
		t.Error("a copy does not wait while the watched Secret is missing")
	}
	rings = b.rings.Load()
	b.clock.Step(time.Minute)
	b.sync()
	if b.w.Holds(content("other")) || b.rings.Load() == rings {
		t.Error("without the watched Secret a copy waits longer, or controllers are not woken")
	}
}

// TestWaitEndsWithoutSync checks that pods get new credentials even if the controller hangs.
func TestWaitEndsWithoutSync(t *testing.T) {
	t.Parallel()
	b := newFixture(t, flavour.HyperShift, "first")
	b.put("first")
	b.sync()
	b.put("second")
	for _, step := range []struct {
		after time.Duration
		holds bool
	}{{0, true}, {5 * time.Minute, true}, {5 * time.Minute, false}, {time.Minute, false}} {
		b.clock.Step(step.after)
		if got := b.w.Holds(content("second")); got != step.holds {
			t.Errorf("%v later, the Watcher holds the credentials: %v", step.after, got)
		}
	}
}

// A copy of the Secret in the guest cluster may be older, and waits too.
func TestRejectedCredentialsAreUsedAfterTheWait(t *testing.T) {
	t.Parallel()
	b := newFixture(t, flavour.HyperShift, "first")
	b.put("first")
	b.sync()
	b.put("second")
	b.sync()
	b.clock.Step(5 * time.Minute)
	b.put("third")
	b.sync()
	if !b.w.Holds(content("second")) || !b.w.Holds(content("third")) {
		t.Error("what is refused does not wait")
	}
	b.clock.Step(5 * time.Minute)
	rings := b.rings.Load()
	b.sync()
	if b.w.Holds(content("second")) || !b.w.Holds(content("third")) {
		t.Error("each content waits from when it was first seen")
	}
	b.clock.Step(5 * time.Minute)
	b.sync()
	if b.w.Holds(content("third")) || b.rings.Load() == rings {
		t.Error("the wait does not end, or controllers are not woken")
	}
	b.expectCondition(
		acceptedCondition, opv1.ConditionFalse, "AuthenticationFailed",
		"for 10m0s, so the driver uses them anyway",
	)
	if got := b.emitted(); !slices.Equal(
		got, slices.Repeat([]string{"TestCredentialsNotAccepted"}, len(got)),
	) ||
		len(got) < 2 {
		t.Errorf("events are %q", got)
	}
	before := len(b.emitted())
	if b.sync(); len(b.emitted()) != before {
		t.Error("the same failure makes another event")
	}
}

func TestRejectedCopyWaitsAfterGoodCredentialsArrive(t *testing.T) {
	t.Parallel()
	b := newFixture(t, flavour.HyperShift, "first", "third")
	for _, password := range []string{"first", "refused", "third"} {
		b.put(password)
		b.sync()
	}
	if !b.w.Holds(content("refused")) || b.w.Holds(content("third")) {
		t.Error("refused credentials roll out where the good ones have not arrived yet")
	}
	b.clock.Step(10 * time.Minute)
	if b.w.Holds(content("refused")) {
		t.Error("that lasts for ever")
	}
}

// The condition of an earlier process is ignored: the administrator of a guest cluster can write
// it, and it may be about another content.
func TestRestartStartsTheWaitAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for name, since := range map[string]time.Time{
		"no condition":     {},
		"minutes ago":      now.Add(-7 * time.Minute),
		"an hour ago":      now.Add(-time.Hour),
		"a time of 1970":   time.Unix(1, 0),
		"a time far ahead": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, flavour.HyperShift)
			b.put("second")
			if !since.IsZero() {
				b.forge(
					opv1.OperatorCondition{
						Type: acceptedCondition, Status: opv1.ConditionFalse,
						LastTransitionTime: metav1.NewTime(since),
					},
				)
			}
			b.restart()
			b.sync()
			b.expectCondition(
				acceptedCondition, opv1.ConditionFalse, "AuthenticationFailed",
				"The driver keeps its old credentials until",
			)
			b.clock.Step(10*time.Minute - time.Second)
			b.sync()
			if !b.w.Holds(content("second")) {
				t.Error("the wait ends early")
			}
			b.clock.Step(time.Second)
			b.sync()
			if b.w.Holds(content("second")) {
				t.Error("the wait does not end")
			}
		})
	}
}

// forge writes a condition as another client would.
func (b *fixture) forge(condition opv1.OperatorCondition) {
	b.t.Helper()
	_, status, version, err := b.State.GetOperatorState()
	if err != nil {
		b.t.Fatal(err)
	}
	status.Conditions = []opv1.OperatorCondition{condition}
	if _, err := b.State.UpdateOperatorStatus(b.t.Context(), version, status); err != nil {
		b.t.Fatal(err)
	}
}

// An outage does not change the result.
func TestAcceptedCredentialsAreTestedAgainAfterAnHour(t *testing.T) {
	t.Parallel()
	b := newFixture(t, flavour.Standalone, "first")
	b.put("first")
	b.sync()
	b.cloud.down = true
	b.clock.Step(time.Hour)
	if tries := b.sync(); len(tries) != 1 {
		t.Errorf("after an hour tries are %q, want one", tries)
	}
	b.expectCondition(acceptedCondition, opv1.ConditionTrue, "AsExpected", "")
	b.cloud.down, b.cloud.accepted["first"] = false, false
	b.clock.Step(time.Hour)
	b.sync()
	b.expectCondition(
		acceptedCondition, opv1.ConditionFalse, "AuthenticationFailed",
		"The driver uses these credentials",
	)
	if b.w.Holds(content("first")) {
		t.Error("what is in use waits")
	}
	b.cloud.accepted["first"] = true
	b.clock.Step(time.Minute)
	b.sync()
	b.expectCondition(acceptedCondition, opv1.ConditionTrue, "AsExpected", "")
}

func TestMissingSecretIsReported(t *testing.T) {
	t.Parallel()
	b := newFixture(t, flavour.Standalone)
	if tries := b.sync(); len(tries) > 0 {
		t.Errorf("tries are %q", tries)
	}
	b.expectCondition(
		acceptedCondition, opv1.ConditionFalse, "InvalidCredentials",
		"Secret openshift-x/credentials is missing",
	)
}

// The administrator of a guest cluster must not choose which server the operator connects to.
func TestSecretOfTheGuestClusterIsNotTried(t *testing.T) {
	t.Parallel()
	b := newFixture(t, flavour.HyperShift, "first")
	foreign := content("http://169.254.169.254")
	foreign.Namespace = namespace
	_, err := b.Guest.CoreV1().Secrets(namespace).Create(t.Context(), foreign, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.put("first")
	b.sync()
	b.clock.Step(time.Minute)
	b.sync()
	b.w.Holds(foreign) // as the workloads ask
	b.sync()
	if !slices.Equal(b.cloud.tries, []string{"first"}) {
		t.Errorf("tries are %q", b.cloud.tries)
	}
	if b.Side(flavour.Guest) == b.Side(flavour.ControlPlane) {
		t.Fatal("there is one cluster only")
	}
}

func TestUnmanagedOperatorTriesNothing(t *testing.T) {
	t.Parallel()
	b := newFixture(t, flavour.Standalone, "first")
	b.put("first")
	driver := &opv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "test"}}
	driver.Spec.ManagementState = opv1.Unmanaged
	b.State.Set(t, driver)
	if tries := b.sync(); len(tries) > 0 || len(b.State.Conditions(t)) > 0 {
		t.Errorf("tries are %q", tries)
	}
}

// The condition becomes True 14 days before the expiry, and events follow at shorter intervals.
func TestExpiryIsReportedAndRarelyRequested(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	b := newFixture(t, flavour.Standalone, "first", "second")
	b.cloud.expiry = b.clock.Now().Add(15 * day)
	b.put("first")
	b.sync()
	b.expectCondition(expiryCondition, opv1.ConditionFalse, "AsExpected", "")
	for range 60 {
		b.clock.Step(time.Minute)
		b.sync()
	}
	if b.cloud.asked != 1 {
		t.Errorf("in an hour OpenStack was asked %d times", b.cloud.asked)
	}
	expires := b.cloud.expiry.UTC().Format("2006-01-02 15:04")
	for _, step := range []struct {
		left   time.Duration
		events int
		reason string
	}{
		{14*day - time.Minute, 1, "ExpiresSoon"},
		{8 * day, 1, "ExpiresSoon"},
		{7 * day, 2, "ExpiresSoon"},
		{time.Hour, 3, "ExpiresSoon"},
		{-time.Hour, 4, "Expired"},
	} {
		b.clock.SetTime(b.cloud.expiry.Add(-step.left))
		b.sync()
		b.expectCondition(expiryCondition, opv1.ConditionTrue, step.reason, expires)
		b.expectExpiry(step.left)
		b.sync()
		if got := b.emitted(); len(got) != step.events || got[0] != "TestCredentialsExpireSoon" {
			t.Errorf("%v before the end events are %q, want %d", step.left, got, step.events)
		}
	}
	b.put("refused")
	b.sync()
	b.expectExpiry()
	b.put("first")
	b.sync()
	b.expectExpiry(-time.Hour)
	b.cloud.expiry = time.Time{}
	b.put("second")
	b.sync()
	b.expectCondition(expiryCondition, opv1.ConditionFalse, "AsExpected", "")
	b.expectExpiry()
}
