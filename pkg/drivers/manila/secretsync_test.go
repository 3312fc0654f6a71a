package manila

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster/clustertest"
)

const aCloud = "username: u, password: hunter2, project_name: p, domain_name: D"

func secret(name string, data map[string]string) *corev1.Secret {
	ret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{},
	}
	for key, value := range data {
		ret.Data[key] = []byte(value)
	}
	return ret
}

func credentials(text string) *corev1.Secret {
	return secret("manila-cloud-credentials", map[string]string{"clouds.yaml": text})
}

func legacyCA(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "cloud-provider-config"}, Data: data}
}

// secretBench drives the controller by hand.
type secretBench struct {
	factory.Controller
	fake   *clustertest.Fake
	events events.InMemoryRecorder
}

func newSecretBench(t *testing.T, objects ...runtime.Object) secretBench {
	t.Helper()
	fake, s := surroundings(t, objects...)
	recorder, ok := s.Events.(events.InMemoryRecorder)
	if !ok {
		t.Fatal("no recorder in memory")
	}
	b := secretBench{newSecretSyncController(s), fake, recorder}
	fake.Start(t)
	fake.Guest.ClearActions()
	return b
}

// run syncs once and returns what was written.
func (b secretBench) run(t *testing.T) ([]string, error) {
	t.Helper()
	b.settle(t)
	err := b.Sync(t.Context(), factory.NewSyncContext("test", b.events))
	return clustertest.Writes(b.fake.Guest), err
}

func (b secretBench) settle(t *testing.T) {
	t.Helper()
	served := func() ([]*corev1.Secret, error) {
		list, err := b.fake.Guest.CoreV1().Secrets(Namespace).List(t.Context(), metav1.ListOptions{})
		var ret []*corev1.Secret
		for i := range list.Items {
			ret = append(ret, &list.Items[i])
		}
		return ret, err
	}
	secrets := b.fake.Side(bundle.Guest).Informers.InformersFor(Namespace).Core().V1().Secrets().Lister()
	settle(t, served, func() ([]*corev1.Secret, error) { return secrets.List(labels.Everything()) })
	b.fake.Guest.ClearActions()
}

func (b secretBench) driverSecret(t *testing.T) map[string]string {
	t.Helper()
	got, err := b.fake.Guest.CoreV1().Secrets(Namespace).Get(t.Context(), "csi-manila-secrets", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]string{}
	for key, value := range got.Data {
		data[key] = string(value)
	}
	return data
}

func (b secretBench) update(t *testing.T, object *corev1.Secret) {
	t.Helper()
	if _, err := b.fake.Guest.CoreV1().Secrets(Namespace).Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// translated is what is made of aCloud.
func translated(caPath string) map[string]string {
	data := map[string]string{
		"os-authURL": authURL, "os-userName": "u", "os-password": "hunter2", "os-projectName": "p",
		"os-domainName": "D", "os-userDomainName": "D", "os-projectDomainName": "D",
	}
	if caPath != "" {
		data["os-certAuthorityPath"] = caPath
	}
	return data
}

func TestSecretIsKept(t *testing.T) {
	t.Parallel()
	b := newSecretBench(t, credentials(cloudsYAML("", aCloud)))
	expect := func(step string, want ...string) {
		t.Helper()
		got, err := b.run(t)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%s: %v; writes (-want +got):\n%s", step, err, diff)
		}
		if diff := cmp.Diff(translated(""), b.driverSecret(t)); diff != "" {
			t.Fatalf("%s: Secret (-want +got):\n%s", step, diff)
		}
	}
	expect("first", "create secrets/csi-manila-secrets")
	expect("again")
	foreign := translated("")
	foreign["os-applicationCredentialID"] = "of another time"
	b.update(t, secret("csi-manila-secrets", foreign))
	expect("a foreign key", "update secrets/csi-manila-secrets")
	expect("again")
	if err := b.fake.Guest.CoreV1().Secrets(Namespace).Delete(t.Context(), "csi-manila-secrets", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("deleted", "create secrets/csi-manila-secrets")
}

func TestSecretFollowsCredentials(t *testing.T) {
	t.Parallel()
	b := newSecretBench(t, credentials(cloudsYAML("", aCloud)), secret("csi-manila-secrets", translated("")))
	b.update(t, credentials(cloudsYAML("", "application_credential_id: i, application_credential_secret: s")))
	if _, err := b.run(t); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"os-authURL": authURL, "os-applicationCredentialID": "i", "os-applicationCredentialSecret": "s"}
	if diff := cmp.Diff(want, b.driverSecret(t)); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
}

func TestCAPath(t *testing.T) {
	t.Parallel()
	const legacyPath = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
	for _, test := range []struct {
		name   string
		cacert string
		legacy map[string]string
		want   string
	}{
		{name: "none"},
		{name: "in the credentials", cacert: "PEM", want: "/etc/openstack/ca.crt"},
		{name: "in the ConfigMap", legacy: map[string]string{"ca-bundle.pem": "PEM"}, want: legacyPath},
		{name: "in both", cacert: "PEM", legacy: map[string]string{"ca-bundle.pem": "PEM"}, want: "/etc/openstack/ca.crt"},
		{name: "ConfigMap without the key", legacy: map[string]string{"config": "x"}},
		{name: "empty", legacy: map[string]string{"ca-bundle.pem": ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			credentials := credentials(cloudsYAML("cacert: /home/installer/ca.pem,", aCloud))
			credentials.Data["cacert"] = []byte(test.cacert)
			objects := []runtime.Object{credentials}
			if test.legacy != nil {
				objects = append(objects, legacyCA(test.legacy))
			}
			b := newSecretBench(t, objects...)
			if _, err := b.run(t); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(translated(test.want), b.driverSecret(t)); diff != "" {
				t.Errorf("Secret (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadCredentialsKeepTheSecret(t *testing.T) {
	t.Parallel()
	const place = "Secret openshift-manila-csi-driver/manila-cloud-credentials"
	noKey := secret("manila-cloud-credentials", map[string]string{"other": "x"})
	for _, test := range []struct {
		name        string
		credentials *corev1.Secret
		want        []string
	}{
		{"missing", nil, []string{place, "clouds.yaml", "manila-csi-drivers"}},
		{"no key", noKey, []string{place, "clouds.yaml"}},
		{"no YAML", credentials("clouds: {openstack: {auth: {password: hunter2}}"), []string{place, "key clouds.yaml"}},
		{"other YAML", credentials("clouds:\n  openstack:\n    auth: hunter2\n"), []string{place, "key clouds.yaml", "line 3"}},
		{"no login", credentials(cloudsYAML("", "password: hunter2")), []string{place, "key clouds.yaml", "username"}},
		{"empty", credentials(""), []string{place, "key clouds.yaml"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			old := map[string]string{"os-authURL": "https://old"}
			objects := []runtime.Object{secret("csi-manila-secrets", old)}
			if test.credentials != nil {
				objects = append(objects, test.credentials)
			}
			b := newSecretBench(t, objects...)
			got, err := b.run(t)
			if err == nil || got != nil {
				t.Fatalf("got %v, %v; want an error and no write", got, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %q gives the password away", err)
			}
			if diff := cmp.Diff(old, b.driverSecret(t)); diff != "" {
				t.Errorf("Secret (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecretOfAnUnmanagedOperator(t *testing.T) {
	t.Parallel()
	b := newSecretBench(t, credentials(cloudsYAML("", aCloud)))
	b.fake.State.Set(t, csiDriver(opv1.Unmanaged, opv1.ManagedStorageClass))
	if got, err := b.run(t); err != nil || got != nil {
		t.Errorf("got %v, %v; want neither write nor error", got, err)
	}
}

func TestNamedEvents(t *testing.T) {
	t.Parallel()
	filter := named("a", "b")
	if !filter(secret("a", nil)) || !filter(secret("b", nil)) || filter(secret("c", nil)) || !filter(cache.DeletedFinalStateUnknown{}) {
		t.Error("want events of a, b and tombstones, and no others")
	}
}

// TestNoValueIsTold has the controller log all it can.
func TestNoValueIsTold(t *testing.T) { //nolint:paralleltest // klog is one for the process
	var log bytes.Buffer
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	state := klog.CaptureState()
	defer state.Restore()
	for name, value := range map[string]string{"v": "10", "logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(&log)

	b := newSecretBench(t, credentials(cloudsYAML("", aCloud)))
	steps := []func(){
		func() {},
		func() { b.update(t, secret("csi-manila-secrets", map[string]string{"os-password": "hunter3"})) },
		func() {
			b.update(t, credentials(cloudsYAML("", "application_credential_id: i, application_credential_secret: hunter4")))
		},
		func() { b.update(t, credentials("hunter5: [")) },
	}
	var told strings.Builder
	for _, step := range steps {
		step()
		_, err := b.run(t)
		fmt.Fprintln(&told, err)
	}
	for _, event := range b.events.Events() {
		fmt.Fprintln(&told, event.Reason, event.Message)
	}
	klog.Flush()
	told.WriteString(log.String())
	if !strings.Contains(told.String(), "changes:") || !strings.Contains(told.String(), "SecretUpdated") {
		t.Errorf("neither the log nor the events say what changes:\n%s", told.String())
	}
	for _, value := range []string{"hunter2", "hunter3", "hunter4", "hunter5", "aHVudGVy"} {
		if strings.Contains(told.String(), value) {
			t.Errorf("%q is told:\n%s", value, told.String())
		}
	}
}
