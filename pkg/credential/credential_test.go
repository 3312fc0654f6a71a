package credential_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

const (
	namespace, hosted = "openshift-x", "clusters-a"
	accepted          = "TestCredentialsAccepted"
	expiring          = "TestCredentialsExpireSoon"
	loginCall         = "POST /identity/v3/auth/tokens"
)

// fixture is a Watcher of a Secret with the credentials of a cloud.
type fixture struct {
	*clustertest.Fake
	t       *testing.T
	w       *credential.Watcher
	options credential.Options
	cloud   testcloud.Cloud
	clock   *clocktesting.FakeClock
	events  events.InMemoryRecorder
	// registry contains the metrics of w.
	registry metrics.KubeRegistry
	rings    atomic.Int32
}

// newFixture has a cloud of the real services if they run. It is for tests of what the services do.
func newFixture(t *testing.T, f flavour.Flavour) *fixture {
	t.Helper()
	cloud, err := testcloud.New(simulator.Config{})
	assert.NilError(t, err)
	return newFixtureOf(t, f, cloud)
}

// newSimulated has a simulated cloud.
func newSimulated(t *testing.T, config simulator.Config) *fixture {
	t.Helper()
	cloud, err := simulator.New(config)
	assert.NilError(t, err)
	return newFixtureOf(t, flavour.Standalone, cloud)
}

// newAccepted has a simulated cloud that has accepted the content of the Secret.
func newAccepted(t *testing.T) (s *fixture, content []byte) {
	t.Helper()
	s = newSimulated(t, simulator.Config{})
	s.put(s.good())
	s.sync()
	return s, s.good()
}

// newFixtureOf is newFixture for a cloud that does not run yet. The clock starts now, because
// Keystone creates no application credential with an expiry in the past.
func newFixtureOf(t *testing.T, f flavour.Flavour, cloud testcloud.Cloud) *fixture {
	t.Helper()
	assert.NilError(t, cloud.Start(t.Context()))
	t.Cleanup(func() { assert.NilError(t, cloud.Close()) })
	s := &fixture{
		t: t, cloud: cloud, clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)),
		Fake: clustertest.New(t, clustertest.Seed{
			Flavour: f, OperatorNamespace: hosted, DriverNamespace: namespace,
		}),
	}
	s.options = credential.Options{
		Cluster: s.Cluster, Clock: s.clock, Service: "Test", Secret: "credentials",
		Missing: "create it", Wrong: "Correct it", Interval: time.Minute,
		Services: func() []openstack.Service { return []openstack.Service{openstack.Manila()} },
	}
	s.restart()
	s.Start(t)
	return s
}

// restart creates a new Watcher, as a new process does.
func (s *fixture) restart() {
	s.events = events.NewInMemoryRecorder("test", s.clock)
	s.options.Events = s.events
	s.w = credential.New(s.options)
	s.registry = metrics.NewKubeRegistry()
	assert.NilError(s.t, s.w.Metrics.RegisterWith(s.registry.Register))
	_, _ = s.w.Informer().
		AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { s.rings.Add(1) }})
}

// secret returns the Secret with a clouds.yaml.
func (s *fixture) secret(file []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "credentials", Namespace: s.Namespaces.ControlPlane},
		Data:       map[string][]byte{clouds.Key: file},
	}
}

// put writes a clouds.yaml to the Secret and waits for the cache.
func (s *fixture) put(file []byte) {
	s.t.Helper()
	clustertest.Put(s.t, s.ControlPlane, s.secret(file))
	s.catchUp()
}

// catchUp waits until the cache contains the Secret of the API server, or none.
func (s *fixture) catchUp() {
	s.t.Helper()
	cached := s.Cluster.Secret(flavour.ControlPlane, s.Namespaces.ControlPlane, "credentials")
	secrets := s.ControlPlane.CoreV1().Secrets(s.Namespaces.ControlPlane)
	clustertest.CatchUp(s.t, secrets, "credentials", cached.Get)
}

// good returns the clouds.yaml that the cloud accepts now.
func (s *fixture) good() []byte { return s.cloud.CloudsYAML(simulator.Clouds{}) }

// bad returns a clouds.yaml with another password. The names differ in a comment.
func (s *fixture) bad(name string) []byte {
	good := string(s.good())
	password := good[strings.Index(good, "password: "):]
	password, _, _ = strings.Cut(password, "\n")
	return []byte(strings.Replace(good, password, "password: wrong-"+name, 1))
}

// sync runs one sync and returns the number of logins that it sent.
func (s *fixture) sync() int {
	s.t.Helper()
	s.cloud.ResetLog()
	assert.NilError(s.t, s.w.Sync(s.t.Context(), factory.NewSyncContext("test", s.events)))
	return s.cloud.Counters().Calls[loginCall]
}

// poll runs the sync of a poll.
func (s *fixture) poll() int {
	s.t.Helper()
	s.clock.Step(time.Minute)
	return s.sync()
}

// expect compares a condition; text is a part of its message.
func (s *fixture) expect(name string, status opv1.ConditionStatus, reason, text string) {
	s.t.Helper()
	found := s.State.Condition(s.t, name)
	assert.Check(s.t, found.Status == status && found.Reason == reason &&
		strings.Contains(found.Message, text), "%s is %+v; want %s with %q", name, found, reason, text)
}

// expectLogin expects the accepted clouds.yaml, nil for none.
func (s *fixture) expectLogin(file []byte) {
	s.t.Helper()
	var got, want string
	if found, _ := s.w.Accepted(); found != nil {
		got = string(found.Login.CloudsYAML())
	}
	if file != nil {
		content := clouds.Content{Data: map[string][]byte{clouds.Key: file}}
		login, err := content.Login()
		assert.NilError(s.t, err)
		want = string(login.CloudsYAML())
	}
	assert.Check(s.t, is.Equal(got, want), "the accepted credentials")
}

// expectExpiry compares the metric of the expiry. Without a value the metric must be absent.
func (s *fixture) expectExpiry(want ...time.Duration) {
	s.t.Helper()
	families, err := s.registry.Gather()
	assert.NilError(s.t, err)
	var got []time.Duration
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			got = append(got, time.Duration(metric.GetGauge().GetValue())*time.Second)
		}
	}
	assert.Check(s.t, is.DeepEqual(want, got), "the metric of the expiry")
}

func (s *fixture) emitted() (reasons []string) {
	for _, event := range s.events.Events() {
		reasons = append(reasons, event.Reason)
	}
	return reasons
}

func TestNewCredentialsAreUsedWhenOpenStackAcceptsThem(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, f)
			first := s.good()
			s.put(first)
			s.sync()
			s.expectLogin(first)
			s.expect(accepted, opv1.ConditionTrue, "AsExpected", "")
			rings, generation := s.rings.Load(), s.w.Generation()
			assert.Check(t, s.poll() == 0 && s.rings.Load() == rings,
				"accepted credentials are tested or announced at each poll")
			s.put(s.bad("a"))
			s.sync()
			s.expectLogin(first)
			s.expect(accepted, opv1.ConditionFalse, "AuthenticationFailed",
				"The driver keeps the earlier login until OpenStack accepts the credentials in Secret ")
			second := s.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential})
			s.put(second)
			s.sync()
			s.expectLogin(second)
			s.expect(accepted, opv1.ConditionTrue, "AsExpected", "")
			assert.Check(t, s.rings.Load() != rings && s.w.Generation() != generation,
				"new accepted credentials are not announced")
		})
	}
}

// Credentials that return after a mistake were accepted before, whether OpenStack answers or not.
func TestReturnToAcceptedCredentialsDuringAnOutage(t *testing.T) {
	t.Parallel()
	s, first := newAccepted(t)
	assert.Check(t, is.Len(s.emitted(), 0), "a start emits events")
	rings := s.rings.Load()
	s.clock.Step(time.Hour) // a test with the same result tells nobody
	s.sync()
	s.put(s.bad("a"))
	s.sync()
	assert.Check(t, is.Equal(s.rings.Load()-rings, int32(1)), "notifications about a refusal")
	_, err := s.cloud.SetFault(simulator.Fault{Mode: simulator.Status, Status: 503})
	assert.NilError(t, err)
	s.put(s.bad("b"))
	assert.Check(t, s.sync() > 0 && s.sync() == 0, "want one login until the next poll")
	assert.Check(t, s.w.Malformed(), "an outage counts as malformed credentials")
	s.put(first)
	s.sync()
	s.expect(accepted, opv1.ConditionTrue, "AsExpected", "")
	const refused = "TestCredentialsNotAccepted"
	assert.Check(t, is.DeepEqual([]string{refused, refused, accepted}, s.emitted()), "events")
}

func TestRefusedCredentialsAreNeverUsed(t *testing.T) {
	t.Parallel()
	s := newFixture(t, flavour.Standalone)
	s.put(s.bad("a"))
	s.sync()
	s.restart()
	for range 30 {
		s.poll()
	}
	s.expectLogin(nil)
	s.expect(accepted, opv1.ConditionFalse, "AuthenticationFailed", "Nothing that runs changes until")
}

func TestMalformedCredentialsNameLineAndFixAndSendNothing(t *testing.T) {
	t.Parallel()
	s, first := newAccepted(t)
	s.put([]byte("clouds:\n  openstack:\n    auth: {}\n"))
	assert.Check(t, s.sync()+s.poll() == 0, "malformed credentials cause a login")
	s.expectLogin(first)
	for _, text := range []string{"(line 3) lacks auth_url", ". Correct it. The driver keeps"} {
		s.expect(accepted, opv1.ConditionFalse, "InvalidCredentials", text)
	}
	assert.Check(t, s.w.Malformed() != nil, "the credentials do not count as malformed")
}

// A login that OpenStack accepts can be useless. It is tested at each poll, with its session and a
// new catalog, which the administrator of the cloud may correct, and never used.
func TestUselessLoginIsNotUsed(t *testing.T) {
	t.Parallel()
	s := newFixture(t, flavour.Standalone)
	s.put([]byte(strings.Replace(string(s.good()), "region_name: ", "region_name: Not", 1)))
	s.sync()
	s.expect(accepted, opv1.ConditionFalse, "NotOffered", "in region Not")
	assert.Check(t, is.Equal(s.poll(), 0), "the session of the first test is not used again")
	s.cloud.RemoveFromCatalog("sharev2")
	s.put(s.good())
	s.sync()
	s.expect(accepted, opv1.ConditionFalse, "NotOffered", "shared file system")
	s.cloud.RestoreToCatalog("sharev2")
	_, err := s.cloud.SetFault(simulator.Fault{
		Mode: simulator.Status, Status: 404, Service: simulator.Share, Times: 1,
	})
	assert.NilError(t, err)
	assert.Check(t, is.Equal(s.poll(), 0), "the catalog is read with a new login")
	s.expect(accepted, opv1.ConditionFalse, "NotOffered", "nothing is served there")
	s.expectLogin(nil)
	assert.Check(t, is.Equal(s.poll(), 0))
	assert.Check(t, is.Equal(s.cloud.Counters().Calls["GET /identity/v3/auth/catalog"], 1))
	s.expect(accepted, opv1.ConditionTrue, "AsExpected", "")
}

func TestWrongPasswordIsSentTwiceInThreeMinutes(t *testing.T) {
	t.Parallel()
	s, _ := newAccepted(t)
	s.put(s.bad("a"))
	sent := s.sync()
	for range 35 {
		s.clock.Step(5 * time.Second)
		sent += s.sync()
	}
	assert.Check(t, is.Equal(sent, 2), "logins")
	s.put(s.bad("b"))
	assert.Check(t, is.Equal(s.sync(), 1), "new credentials are not tried at once")
}

// With LDAP a token outlives its password, with Keystone's own users it does not. An outage does
// not change the result.
func TestAcceptedCredentialsAreTestedAgainAfterAnHour(t *testing.T) {
	t.Parallel()
	s, first := newAccepted(t)
	_, err := s.cloud.SetFault(simulator.Fault{Mode: simulator.Status, Status: 503})
	assert.NilError(t, err)
	s.clock.Step(time.Hour)
	assert.Check(t, is.Equal(s.sync(), 1), "logins after an hour")
	s.expect(accepted, opv1.ConditionTrue, "AsExpected", "")
	assert.NilError(t, s.cloud.ClearFaults())
	s.cloud.RotateCredentials(simulator.Rotation{KeepTokens: true})
	s.clock.Step(time.Hour)
	rings := s.rings.Load()
	s.sync()
	s.expect(accepted, opv1.ConditionFalse, "AuthenticationFailed",
		"The driver uses these credentials")
	s.expectLogin(first)
	client, err := s.w.Client(t.Context())
	assert.NilError(t, err)
	_, err = client.ShareTypes(t.Context())
	assert.Check(t, err, "the session ends with a refused test")
	assert.Check(t, s.rings.Load() != rings, "the refusal is not announced")
}

func TestEndOfTheSessionCausesATest(t *testing.T) {
	t.Parallel()
	s := newFixture(t, flavour.Standalone)
	s.put(s.good())
	s.sync()
	s.cloud.RotateCredentials(simulator.Rotation{})
	client, err := s.w.Client(t.Context())
	assert.NilError(t, err)
	_, err = client.ShareTypes(t.Context())
	assert.Assert(t, openstack.ReasonOf(err) == openstack.AuthenticationFailed,
		"got %v, want a refused renewal", err)
	n := s.poll() + s.poll()
	assert.Check(t, n <= 2, "%d refused logins in two minutes", n)
	s.expect(accepted, opv1.ConditionFalse, "AuthenticationFailed",
		"The driver uses these credentials")
}

func TestMissingSecretIsReportedAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	const missing = "Secret openshift-x/credentials is missing: create it. "
	assert.Check(t, s.sync() == 0, "a missing Secret causes a login")
	s.expect(accepted, opv1.ConditionFalse, "InvalidCredentials", missing+"Nothing that runs changes")
	first := s.good()
	s.put(first)
	s.sync()
	clustertest.Delete(t, s.ControlPlane, s.secret(nil))
	s.catchUp()
	s.sync()
	s.expect(accepted, opv1.ConditionFalse, "InvalidCredentials", missing+"The driver keeps")
	s.expectLogin(first)
}

// The administrator of a guest cluster must not choose which server the operator connects to.
func TestSecretOfTheGuestClusterIsNotRead(t *testing.T) {
	t.Parallel()
	cloud, err := simulator.New(simulator.Config{})
	assert.NilError(t, err)
	s := newFixtureOf(t, flavour.HyperShift, cloud)
	theirs := s.secret(s.good())
	theirs.Namespace = namespace
	clustertest.Put(t, s.Guest, theirs)
	assert.Check(t, s.sync()+s.poll() == 0, "the Secret of the guest cluster is sent to OpenStack")
	s.expect(accepted, opv1.ConditionFalse, "InvalidCredentials",
		"Secret clusters-a/credentials of the management cluster is missing")
}

func TestUnmanagedOperatorTestsNothing(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	s.put(s.good())
	var driver opv1.ClusterCSIDriver
	driver.Spec.ManagementState = opv1.Unmanaged
	s.State.Set(t, &driver)
	assert.Check(t, s.sync() == 0 && len(s.State.Conditions(t)) == 0,
		"an unmanaged operator logs in or reports")
}

// Before the driver is needed, the probe of OpenStack reports what is wrong.
func TestConditionsExistOnlyForANeededDriver(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	needed := make(chan struct{})
	s.options.Needed = needed
	s.restart()
	s.put(s.good())
	s.sync()
	s.expectLogin(s.good())
	assert.Check(t, is.Len(s.State.Conditions(t), 0))
	close(needed)
	s.sync()
	s.expect(accepted, opv1.ConditionTrue, "AsExpected", "")
}

// A changed CA is new content: the drivers would not connect to the cloud either.
func TestChangedTrustedCAsCauseATest(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{TLS: true})
	var trusted []byte
	s.options.TrustedCAs = func() []byte { return trusted }
	s.restart()
	s.put(s.good())
	s.sync()
	s.expect(accepted, opv1.ConditionFalse, "CloudUnreachable", "unknown authority")
	trusted = s.cloud.CA()
	s.sync()
	s.expect(accepted, opv1.ConditionTrue, "AsExpected", "")
}

// During an outage, a test would report credentials that OpenStack has accepted as refused.
func TestChangesThatTheLoginDoesNotUseCauseNoTest(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{TLS: true})
	var others string
	s.options.CA = func() (string, string, error) { return others, "", nil }
	s.options.TrustedCAs = func() []byte { return []byte(others) }
	s.restart()
	secret := s.secret(s.good())
	secret.Data[clouds.CAKey] = s.cloud.CA()
	change := func() int {
		clustertest.Put(t, s.ControlPlane, secret)
		s.catchUp()
		return s.sync()
	}
	assert.Check(t, is.Equal(change(), 1), "logins")
	_, err := s.cloud.SetFault(simulator.Fault{Mode: simulator.Status, Status: 503})
	assert.NilError(t, err)
	others = "another CA"
	assert.Check(t, is.Equal(s.sync(), 0), "logins for a CA that is not used")
	secret.Data["clouds.conf"] = []byte("others")
	assert.Check(t, is.Equal(change(), 0), "logins for another key")
	rings := s.rings.Load()
	secret.Data[clouds.Key] = append(s.good(), "    insecure: false # new\n"...)
	assert.Check(t, is.Equal(change(), 0), "logins for a key that has no effect")
	assert.Check(t, len(s.w.Remarks()) == 1 && s.rings.Load() != rings, "remarks %q", s.w.Remarks())
	s.expect(accepted, opv1.ConditionTrue, "AsExpected", "")
}

func TestChangedRequirementsCauseATest(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	services := []openstack.Service{openstack.Nova(), openstack.Cinder()}
	s.options.Services = func() []openstack.Service { return services }
	s.restart()
	s.put(s.good())
	assert.Check(t, s.sync() == 1 && s.sync() == 0, "want one login")
	services[1] = openstack.Cinder().AnyMicroversion()
	assert.Check(t, is.Equal(s.sync(), 1), "logins for other requirements")
}

func TestClientWaitsForTheFirstTest(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.w.Client(ended)
	assert.Check(t, err != nil, "there is a client before the first test")
	result := make(chan error, 1)
	go func() {
		_, err := s.w.Client(t.Context())
		result <- err
	}()
	s.put(s.good())
	s.sync()
	assert.NilError(t, <-result)
}

// The condition becomes True 14 days before the expiry, and events follow at shorter intervals.
func TestExpiryIsReportedAndRarelyRequested(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	s := newFixture(t, flavour.Standalone)
	expiry := s.clock.Now().Add(15 * day)
	rotate := func(expiry time.Time) {
		s.cloud.RotateCredentials(simulator.Rotation{
			ApplicationCredentialExpiry: expiry, KeepTokens: true,
		})
		s.put(s.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential}))
	}
	rotate(expiry)
	s.sync()
	s.expect(expiring, opv1.ConditionFalse, "AsExpected", "")
	requests := map[bool]int{}
	for minute := range 361 {
		s.poll()
		for call, n := range s.cloud.Counters().Calls {
			if strings.Contains(call, "application_credentials") {
				requests[minute < 359] += n
			}
		}
	}
	assert.Check(t, requests[true] == 0 && requests[false] == 1,
		"in six hours OpenStack was asked %v", requests)
	expires := expiry.UTC().Format("2006-01-02 15:04")
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
		s.clock.SetTime(expiry.Add(-step.left))
		s.sync()
		s.expect(expiring, opv1.ConditionTrue, step.reason, expires)
		s.expectExpiry(step.left)
		s.sync()
		want := slices.Repeat([]string{expiring}, step.events)
		assert.Check(t, is.DeepEqual(want, s.emitted()), "events %v before the end", step.left)
	}
	s.put(s.bad("a"))
	s.sync()
	s.expectExpiry()
	rotate(time.Time{})
	s.sync()
	s.expect(expiring, opv1.ConditionFalse, "AsExpected", "")
	s.expectExpiry()
}
