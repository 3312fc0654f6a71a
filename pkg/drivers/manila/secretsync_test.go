package manila

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const aCloud = "username: u, password: hunter2, project_name: p, domain_name: D"

func secret(name string, data map[string]string) *corev1.Secret {
	ret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{},
	}
	for key, value := range data {
		ret.Data[key] = []byte(value)
	}
	return ret
}

func credentials(text string) *corev1.Secret {
	return secret("manila-cloud-credentials", map[string]string{"clouds.yaml": text})
}

// secretBench runs single syncs of the controller.
type secretBench struct {
	factory.Controller
	fake     *clustertest.Fake
	events   events.InMemoryRecorder
	accepted *clustertest.Acceptance
}

// newSecretBench returns a secretBench of a standalone cluster with these objects.
func newSecretBench(t *testing.T, objects ...runtime.Object) secretBench {
	t.Helper()
	return newSecretBenchOf(t, clustertest.Seed{Guest: objects})
}

func newSecretBenchOf(t *testing.T, seed clustertest.Seed) secretBench {
	t.Helper()
	fake, s := dependenciesOf(t, seed)
	recorder, ok := s.Events.(events.InMemoryRecorder)
	if !ok {
		t.Fatal("no recorder in memory")
	}
	accepted := &clustertest.Acceptance{}
	b := secretBench{newSecretSyncController(s, accepted), fake, recorder, accepted}
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
	for _, name := range []string{"manila-cloud-credentials", "csi-manila-secrets"} {
		secrets := b.fake.Side(flavour.Guest).ObjectInformers.
			For(Namespace, name).Core().V1().Secrets().Lister()
		settleOne(t,
			func() (*corev1.Secret, error) {
				return b.fake.Guest.CoreV1().Secrets(Namespace).Get(t.Context(), name, metav1.GetOptions{})
			},
			func() (*corev1.Secret, error) { return secrets.Secrets(Namespace).Get(name) })
	}
	b.fake.Guest.ClearActions()
}

func (b secretBench) loginSecret(t *testing.T) map[string]string {
	t.Helper()
	got, err := b.fake.Guest.CoreV1().Secrets(Namespace).Get(t.Context(), "csi-manila-secrets",
		metav1.GetOptions{})
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
	if _, err := b.fake.Guest.CoreV1().Secrets(Namespace).Update(t.Context(), object,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// translated is the translation of aCloud.
func translated(ca string) map[string]string {
	data := map[string]string{
		"os-authURL": authURL, "os-userName": "u", "os-password": "hunter2", "os-projectName": "p",
		"os-domainName": "D", "os-userDomainName": "D", "os-projectDomainName": "D",
	}
	if ca != "" {
		data["os-certAuthority"] = ca
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
		if diff := cmp.Diff(translated(""), b.loginSecret(t)); diff != "" {
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
	if err := b.fake.Guest.CoreV1().Secrets(Namespace).Delete(t.Context(), "csi-manila-secrets",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("deleted", "create secrets/csi-manila-secrets")
}

// TestSecretWaitsForAcceptedCredentials: the driver would use new credentials at its next call. A
// driver without credentials gets them immediately.
func TestSecretWaitsForAcceptedCredentials(t *testing.T) {
	t.Parallel()
	b := newSecretBench(t, credentials(cloudsYAML("", aCloud)))
	b.accepted.Held.Store(true)
	expect := func(step string, want ...string) {
		t.Helper()
		got, err := b.run(t)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%s: %v; writes (-want +got):\n%s", step, err, diff)
		}
	}
	expect("a new driver", "create secrets/csi-manila-secrets")
	b.update(t, credentials(cloudsYAML("", strings.ReplaceAll(aCloud, "hunter2", "hunter3"))))
	expect("new credentials")
	b.accepted.Held.Store(false)
	expect("accepted", "update secrets/csi-manila-secrets")
	if got := b.loginSecret(t)["os-password"]; got != "hunter3" {
		t.Errorf("the password is %q", got)
	}
}

func TestSecretFollowsCredentials(t *testing.T) {
	t.Parallel()
	b := newSecretBench(t, credentials(cloudsYAML("", aCloud)),
		secret("csi-manila-secrets", translated("")))
	b.update(t,
		credentials(cloudsYAML("", "application_credential_id: i, application_credential_secret: s")))
	if _, err := b.run(t); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"os-authURL": authURL, "os-applicationCredentialID": "i", "os-applicationCredentialSecret": "s",
	}
	if diff := cmp.Diff(want, b.loginSecret(t)); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
}

// TestFirstTranslationContainsCA checks that the first translation contains the CA, before the copy
// of the ConfigMap and pods that mount it exist.
func TestFirstTranslationContainsCA(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		cacert string
		source map[string]string
		copied map[string]string
		want   string
	}{
		{name: "none"},
		{name: "in the credentials", cacert: aCA, want: aCA},
		{name: "in the ConfigMap", source: map[string]string{"ca-bundle.pem": aCA}, want: aCA},
		{name: "in both", cacert: aCA, source: map[string]string{"ca-bundle.pem": anotherCA}, want: aCA},
		{name: "ConfigMap without the key", source: map[string]string{"config": "x"}},
		{name: "empty", source: map[string]string{"ca-bundle.pem": ""}},
		{name: "in a copy that is about to be deleted", copied: map[string]string{"ca-bundle.pem": aCA}},
	} {
		for _, f := range flavour.All() {
			t.Run(test.name+", "+string(f), func(t *testing.T) {
				t.Parallel()
				credentials := credentials(cloudsYAML("cacert: /home/installer/ca.pem,", aCloud))
				credentials.Data["cacert"] = []byte(test.cacert)
				guest, controller := []runtime.Object{credentials}, []runtime.Object(nil)
				if test.source != nil {
					controller = append(controller, sourceOf(f, test.source))
				}
				if test.copied != nil {
					guest = append(guest, copyWith(test.copied))
				}
				b := newSecretBenchOf(t, seedWith(f, controller, guest))
				writes, err := b.run(t)
				diff := cmp.Diff([]string{"create secrets/csi-manila-secrets"}, writes)
				if err != nil || diff != "" {
					t.Fatalf("%v; writes (-want +got):\n%s", err, diff)
				}
				if diff := cmp.Diff(translated(test.want), b.loginSecret(t)); diff != "" {
					t.Errorf("Secret (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestSecretOfAHostedCluster checks that the Secret is in the guest cluster and contains the
// credentials of the guest cluster.
func TestSecretOfAHostedCluster(t *testing.T) {
	t.Parallel()
	others := credentials("clouds: {}")
	others.Namespace = hosted
	b := newSecretBenchOf(t, seedWith(flavour.HyperShift, []runtime.Object{others},
		[]runtime.Object{credentials(cloudsYAML("", aCloud))}))
	if _, err := b.run(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(translated(""), b.loginSecret(t)); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	for _, action := range b.fake.ControlPlane.Actions() {
		if action.GetNamespace() != hosted || action.GetResource().Resource != "configmaps" {
			t.Errorf("the management cluster is asked to %s %s in %q, want only ConfigMaps of %s",
				action.GetVerb(), action.GetResource().Resource, action.GetNamespace(), hosted)
		}
	}
	if writes := clustertest.Writes(b.fake.ControlPlane); len(writes) > 0 {
		t.Errorf("the management cluster is written to: %v", writes)
	}
}

// TestChangedCATriggersTranslation runs the real controller, and checks that a CA that is added or
// removed triggers it.
func TestChangedCATriggersTranslation(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			b := newSecretBenchOf(t, seedWith(f, nil, []runtime.Object{credentials(cloudsYAML("", aCloud))}))
			go b.Run(t.Context(), 1)
			hasCA := func(want bool) {
				t.Helper()
				eventually(t, func() bool {
					got, err := b.fake.Guest.CoreV1().Secrets(Namespace).Get(t.Context(), "csi-manila-secrets",
						metav1.GetOptions{})
					return err == nil && (len(got.Data["os-certAuthority"]) > 0) == want
				})
			}
			hasCA(false)
			source := sourceOf(f, map[string]string{"ca-bundle.pem": aCA})
			api := b.fake.ControlPlane.CoreV1().ConfigMaps(source.Namespace)
			if _, err := api.Create(t.Context(), source, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			hasCA(true)
			if err := api.Delete(t.Context(), source.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			hasCA(false)
		})
	}
}

func TestBadCredentialsKeepTheSecret(t *testing.T) {
	t.Parallel()
	const secretName = "Secret openshift-manila-csi-driver/manila-cloud-credentials"
	noKey := secret("manila-cloud-credentials", map[string]string{"other": "x"})
	advice := map[flavour.Flavour]map[bool][]string{ // by whether the Secret exists
		flavour.Standalone: {
			false: {secretName + " is", "CredentialsRequest manila-csi-drivers"},
			true:  {secretName + " ", ": correct it;"},
		},
		flavour.HyperShift: {
			false: {
				secretName + " of the guest cluster is", "hosted-cluster-config-operator",
				"Secret that the HostedCluster names in spec.platform.openstack.identityRef, ",
			},
			true: {
				secretName + " of the guest cluster ",
				"Secret clusters-a/manila-cloud-credentials of the management cluster",
				"correct the Secret that the HostedCluster names in spec.platform.openstack.identityRef, " +
					"then delete this copy and ",
			},
		},
	}
	for _, test := range []struct {
		name        string
		credentials *corev1.Secret
		want        []string
	}{
		{"missing", nil, nil},
		{"no key", noKey, []string{"clouds.yaml"}},
		{
			"no YAML", credentials("clouds: {openstack: {auth: {password: hunter2}}"),
			[]string{"key clouds.yaml"},
		},
		{
			"other YAML", credentials("clouds:\n  openstack:\n    auth: hunter2\n"),
			[]string{"key clouds.yaml", "line 3"},
		},
		{
			"no login", credentials(cloudsYAML("", "password: hunter2")),
			[]string{"key clouds.yaml", "username"},
		},
		{"empty", credentials(""), []string{"key clouds.yaml"}},
	} {
		for _, f := range flavour.All() {
			t.Run(test.name+", "+string(f), func(t *testing.T) {
				t.Parallel()
				objects := []runtime.Object{secret("csi-manila-secrets",
					map[string]string{"os-authURL": "https://old"})}
				if test.credentials != nil {
					objects = append(objects, test.credentials)
				}
				testBadCredentials(t, newSecretBenchOf(t, seedWith(f, nil, objects)),
					append(test.want, advice[f][test.credentials != nil]...))
			})
		}
	}
}

func testBadCredentials(t *testing.T, b secretBench, wants []string) {
	t.Helper()
	got, err := b.run(t)
	if err == nil || got != nil {
		t.Fatalf("got %v, %v; want an error and no write", got, err)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if b.fake.Flavour == flavour.HyperShift && strings.Contains(err.Error(), "CredentialsRequest") {
		t.Errorf("error %q names an object that a guest cluster does not contain", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %q gives the password away", err)
	}
	diff := cmp.Diff(map[string]string{"os-authURL": "https://old"}, b.loginSecret(t))
	if diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
}

// TestUpgradeNamesNoUnmountedFile reads the Secret as pods of OpenShift's csi-operator do while
// they are not rolled out yet.
func TestUpgradeNamesNoUnmountedFile(t *testing.T) {
	t.Parallel()
	mounted := []string{
		"", "/etc/openstack/clouds.yaml",
		"/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
	}
	older := secret("csi-manila-secrets", useClouds())
	for name, clouds := range map[string]string{
		"explicit login":       cloudsYAML("cacert: "+mounted[2]+",", aCloud),
		"login by clouds.yaml": cloudsYAML("", "user_id: u, password: p, project_id: i"),
		"login and CA by clouds.yaml": cloudsYAML("cacert: "+mounted[2]+",",
			"user_id: u, password: p, project_id: i"),
	} {
		for _, f := range flavour.All() {
			t.Run(name+", "+string(f), func(t *testing.T) {
				t.Parallel()
				both := credentials(clouds)
				both.Data["cacert"] = []byte(aCA)
				b := newSecretBenchOf(t,
					seedWith(f, []runtime.Object{sourceOf(f, map[string]string{"ca-bundle.pem": aCA})},
						[]runtime.Object{both, older}))
				if _, err := b.run(t); err != nil {
					t.Fatal(err)
				}
				got := b.loginSecret(t)
				for _, key := range []string{"os-cloudsFile", "os-certAuthorityPath"} {
					if !slices.Contains(mounted, got[key]) {
						t.Errorf("%s is %s, which these pods do not mount", key, got[key])
					}
				}
				if got["os-certAuthority"] != aCA && got["os-certAuthorityPath"] == "" {
					t.Errorf("the driver finds no CA: %v", got)
				}
			})
		}
	}
}

// TestUnusableCAKeepsTheSecret names the key, on each side.
func TestUnusableCAKeepsTheSecret(t *testing.T) {
	t.Parallel()
	broken := credentials(cloudsYAML("", aCloud))
	broken.Data["cacert"] = []byte("no PEM")
	for f, source := range map[flavour.Flavour]string{
		flavour.Standalone: "key ca-bundle.pem of ConfigMap openshift-config/cloud-provider-config " +
			"contains no PEM certificate",
		flavour.HyperShift: "key ca-bundle.pem of ConfigMap clusters-a/openstack-cloud-config " +
			"of the management cluster contains no PEM certificate",
	} {
		old := secret("csi-manila-secrets", map[string]string{"os-authURL": "https://old"})
		inSecret := newSecretBenchOf(t, seedWith(f, nil, []runtime.Object{old, broken}))
		testBadCredentials(t, inSecret, []string{
			"key cacert of Secret openshift-manila-csi-driver/manila-cloud-credentials",
			"contains no PEM certificate",
		})
		inSource := newSecretBenchOf(t,
			seedWith(f, []runtime.Object{sourceOf(f, map[string]string{"ca-bundle.pem": "no PEM"})},
				[]runtime.Object{old, credentials(cloudsYAML("", aCloud))}))
		testBadCredentials(t, inSource, []string{source})
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

// TestLogContainsNoValues runs the controller at the highest log level.
func TestLogContainsNoValues(t *testing.T) { //nolint:paralleltest // klog is one for the process
	var log bytes.Buffer
	stop := logInto(t, &log)

	b := newSecretBench(t, credentials(cloudsYAML("", aCloud)))
	steps := []func(){
		func() {},
		func() { b.update(t, secret("csi-manila-secrets", map[string]string{"os-password": "hunter3"})) },
		func() {
			b.update(t, credentials(cloudsYAML("",
				"application_credential_id: i, application_credential_secret: hunter4")))
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
	stop()
	told.WriteString(log.String())
	if !strings.Contains(told.String(), "changes:") ||
		!strings.Contains(told.String(), "SecretUpdated") {
		t.Errorf("neither the log nor the events say what changes:\n%s", told.String())
	}
	for _, value := range []string{"hunter2", "hunter3", "hunter4", "hunter5", "aHVudGVy"} {
		if strings.Contains(told.String(), value) {
			t.Errorf("%q is told:\n%s", value, told.String())
		}
	}
}

// logInto makes klog write everything to log until stop is called. It does not use klog's function
// that restores the state, which is unsafe while informers run.
func logInto(t *testing.T, log io.Writer) (stop func()) {
	t.Helper()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	verbosity := func(v string) {
		if err := flags.Set("v", v); err != nil {
			t.Fatal(err)
		}
	}
	before := flags.Lookup("v").Value.String()
	klog.SetOutput(log)
	klog.LogToStderr(false)
	verbosity("10")
	return func() {
		klog.Flush()
		verbosity(before)
		klog.LogToStderr(true)
		klog.SetOutput(io.Discard)
	}
}
