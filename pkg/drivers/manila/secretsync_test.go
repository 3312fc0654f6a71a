package manila

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	authURL = "https://keystone.example.com:5000/v3"
	aCloud  = "username: u, password: hunter2, project_name: p, domain_name: D"
)

func cloudsYAML(auth string) string {
	return "clouds: {openstack: {auth: {auth_url: '" + authURL + "', " + auth + "}}}"
}

// secretBench runs single syncs of the controller.
type secretBench struct {
	factory.Controller
	fake        *clustertest.Fake
	events      events.InMemoryRecorder
	credentials *clustertest.Credentials
	// dependencies are those of the controller.
	dependencies plugin.Dependencies
	// clouds and ca are the content that the operator reads.
	clouds, ca string
}

func newSecretBench(t *testing.T, f flavour.Flavour) *secretBench {
	t.Helper()
	fake, s := dependenciesOf(t, clustertest.Seed{Flavour: f})
	recorder := s.Events.(events.InMemoryRecorder)
	b := &secretBench{fake: fake, events: recorder, dependencies: s, clouds: cloudsYAML(aCloud)}
	b.credentials = &clustertest.Credentials{Read: func() (clouds.Content, error) {
		data := map[string][]byte{clouds.Key: []byte(b.clouds)}
		return clouds.Content{Name: "Secret a/b", Data: data, CA: b.ca}, nil
	}}
	b.Controller = newSecretSyncController(s, b.credentials)
	fake.Start(t)
	return b
}

// run syncs once and returns what was written.
func (b *secretBench) run(t *testing.T) ([]string, error) {
	t.Helper()
	clustertest.CatchUp(t, b.fake.Guest.CoreV1().Secrets(Namespace), loginSecret,
		b.fake.Secret(flavour.Guest, Namespace, loginSecret).Get)
	b.fake.Guest.ClearActions()
	err := b.Sync(t.Context(), factory.NewSyncContext("test", b.events))
	return clustertest.Writes(b.fake.Guest), err
}

// expect compares the writes of a sync, and the password in the Secret.
func (b *secretBench) expect(t *testing.T, step, password string, want ...string) {
	t.Helper()
	got, err := b.run(t)
	assert.NilError(t, err, step)
	assert.Assert(t, is.DeepEqual(want, got), "%s: writes", step)
	wanted := map[string]string{
		"os-authURL": authURL, "os-userName": "u", "os-password": password, "os-projectName": "p",
		"os-domainName": "D", "os-userDomainName": "D", "os-projectDomainName": "D",
	}
	if b.ca != "" {
		wanted["os-certAuthority"] = b.ca
	}
	assert.Assert(t, is.DeepEqual(wanted, b.data(t)), "%s: Secret", step)
}

func (b *secretBench) data(t *testing.T) map[string]string {
	t.Helper()
	got, err := b.fake.Guest.CoreV1().Secrets(Namespace).Get(t.Context(), loginSecret,
		metav1.GetOptions{})
	assert.NilError(t, err)
	data := map[string]string{}
	for key, value := range got.Data {
		data[key] = string(value)
	}
	return data
}

// secretOf returns the Secret with this data.
func secretOf(data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: loginSecret},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

func (b *secretBench) update(t *testing.T, data map[string]string) {
	t.Helper()
	clustertest.Put(t, b.fake.Guest, secretOf(data))
}

const (
	created = "create secrets/csi-manila-secrets"
	updated = "update secrets/csi-manila-secrets"
)

func TestDriverGetsTheAcceptedLogin(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			b := newSecretBench(t, f)
			b.expect(t, "first", "hunter2", created)
			b.expect(t, "again", "hunter2")
			foreign := b.data(t)
			foreign["os-applicationCredentialID"] = "of another time"
			b.update(t, foreign)
			b.expect(t, "a foreign key", "hunter2", updated)
			b.ca = clustertest.CA
			b.expect(t, "a CA", "hunter2", updated)
			b.clouds = strings.Replace(b.clouds, "hunter2", "hunter3", 1)
			b.credentials.Refused = &openstack.Error{
				Reason: openstack.AuthenticationFailed, Message: "refused",
			}
			b.expect(t, "refused", "hunter2")
			clustertest.Delete(t, b.fake.Guest, secretOf(nil))
			b.expect(t, "deleted during the refusal", "hunter2", created)
			b.credentials.Refused = nil
			b.expect(t, "accepted", "hunter3", updated)
			b.clouds = cloudsYAML("application_credential_id: i, application_credential_secret: s")
			_, err := b.run(t)
			assert.NilError(t, err)
			want := map[string]string{
				"os-authURL": authURL, "os-applicationCredentialID": "i",
				"os-applicationCredentialSecret": "s", "os-certAuthority": clustertest.CA,
			}
			assert.Check(t, is.DeepEqual(want, b.data(t)), "Secret of another kind of login")
		})
	}
}

// As after a restart during an outage.
func TestSecretStaysWithoutAnAcceptedLogin(t *testing.T) {
	t.Parallel()
	b := newSecretBench(t, flavour.Standalone)
	b.expect(t, "first", "hunter2", created)
	restarted := &clustertest.Credentials{
		Refused: &openstack.Error{Reason: openstack.CloudUnreachable, Message: "no answer"},
	}
	b.Controller = newSecretSyncController(b.dependencies, restarted)
	b.expect(t, "restarted", "hunter2")
}

func TestMalformedCredentialsAreAnErrorAndChangeNothing(t *testing.T) {
	t.Parallel()
	b := newSecretBench(t, flavour.Standalone)
	b.expect(t, "first", "hunter2", created)
	b.clouds = "clouds:\n  openstack:\n    auth: hunter3\n"
	writes, err := b.run(t)
	const want = "key clouds.yaml of Secret a/b does not have the format of clouds.yaml: " +
		"clouds.openstack.auth (line 3) "
	assert.Check(t, is.ErrorContains(err, want))
	assert.Check(t, is.ErrorContains(err, "; the driver keeps its present credentials"))
	assert.Check(t, is.Len(writes, 0))
}
