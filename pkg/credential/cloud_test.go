package credential_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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
		Clock: clock,
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

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
