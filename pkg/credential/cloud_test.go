package credential_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

const driverNamespace = "openshift-x"

// The Watcher sends accepted credentials again after an hour, in a new session, if they differ from
// the operator's files.
func TestRevokedCredentialsAreDetected(t *testing.T) {
	t.Parallel()
	cloud, err := testcloud.New(simulator.Config{})
	check(t, err)
	check(t, cloud.Start(t.Context()))
	t.Cleanup(func() { check(t, cloud.Close()) })
	text := cloud.CloudsYAML(simulator.Clouds{})
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	check(t, os.WriteFile(file, append(text, "# the operator's\n"...), 0o600))

	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	fake := clustertest.New(
		t,
		clustertest.Seed{
			Flavour: flavour.Standalone, OperatorNamespace: driverNamespace,
			DriverNamespace: driverNamespace,
		},
	)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: "credentials"},
		Data:       map[string][]byte{openstack.CloudsKey: text},
	}
	_, err = fake.ControlPlane.CoreV1().
		Secrets(driverNamespace).
		Create(t.Context(), secret, metav1.CreateOptions{})
	check(t, err)
	source := openstack.Source{CloudsFile: file}
	opener := credential.Cloud{
		Own: openstack.NewClient(source, clock), Source: source,
	}
	recorder := events.NewInMemoryRecorder("test", clock)
	watcher := credential.New(credential.Options{
		Cluster: fake.Cluster, Events: recorder, Clock: clock, Service: "Test", Secret: secret.Name,
		Open: opener.Open,
		Wait: 10 * time.Minute, Interval: time.Minute,
	})
	fake.Start(t)
	want := func(status opv1.ConditionStatus, reason string) {
		t.Helper()
		check(t, watcher.Sync(t.Context(), factory.NewSyncContext("test", recorder)))
		found := v1helpers.FindOperatorCondition(fake.State.Conditions(t), "TestCredentialsAccepted")
		if found == nil || found.Status != status || found.Reason != reason {
			t.Errorf("the condition is %+v, want %s %s", found, status, reason)
		}
	}
	want(opv1.ConditionTrue, "AsExpected")
	cloud.RotateCredentials(simulator.Rotation{})
	clock.Step(time.Hour)
	want(opv1.ConditionFalse, "AuthenticationFailed")
}

// The Secret changes first, the file of the operator up to about a minute later. Clouds lock users
// out after a few refused logins, and both operators use the same user.
func TestWrongPasswordIsSentTwiceInThreeMinutes(t *testing.T) {
	t.Parallel()
	const step = 5 * time.Second
	for _, delay := range []time.Duration{0, step, 30 * time.Second, time.Minute, 2 * time.Minute} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			cloud, err := testcloud.New(simulator.Config{})
			check(t, err)
			check(t, cloud.Start(t.Context()))
			t.Cleanup(func() { check(t, cloud.Close()) })
			wrong := cloud.CloudsYAML(simulator.Clouds{})
			cloud.RotateCredentials(simulator.Rotation{})
			source := openstack.Source{CloudsFile: filepath.Join(t.TempDir(), "clouds.yaml")}
			check(t, os.WriteFile(source.CloudsFile, cloud.CloudsYAML(simulator.Clouds{}), 0o600))
			clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
			own := openstack.NewClient(source, clock)
			check(t, own.Login(t.Context()))
			cloud.ResetLog()
			tested := credential.Cloud{Own: own, Source: source}.Open(openstack.Secret{
				Name: "Secret a/b", Data: map[string][]byte{openstack.CloudsKey: wrong},
			})
			var logins []int // after each minute
			for passed := time.Duration(0); passed < 3*time.Minute; passed += step {
				if passed == delay {
					check(t, os.WriteFile(source.CloudsFile, wrong, 0o600))
				}
				_ = own.Login(t.Context()) // as the cloud probe does
				err := tested.Try(t.Context())
				if openstack.ReasonOf(err) != openstack.AuthenticationFailed {
					t.Fatalf("%v: got %v", passed, err)
				}
				if clock.Step(step); (passed+step)%time.Minute == 0 {
					logins = append(logins, cloud.Counters().Calls["POST /identity/v3/auth/tokens"])
				}
			}
			if diff := cmp.Diff([]int{1, 2, 2}, logins); diff != "" {
				t.Errorf("logins after each minute (-want +got):\n%s", diff)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
