package cinder

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/pkg/zones"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	// hosted is the namespace of a hosted control plane.
	hosted = "clusters-a"
	// userNamespace is where the administrator of a cluster configures it.
	userNamespace = "openshift-config"
	// password is part of every text that an error must not quote.
	password = "s3cr3t-pa55word"
	grace    = 15 * time.Minute
	poll     = time.Minute
)

// fakeCloud returns these zones and volume types, or an error, and counts the requests.
type fakeCloud struct {
	zones.Cloud

	compute, volume        []openstack.Zone
	err, computeErr        error        // of requests for zones, and only of those for compute zones
	probes                 atomic.Int32 // requests for compute zones
	types                  []openstack.Type
	typesErr               error
	volumeLists, typeLists int
}

func (f *fakeCloud) ComputeZones(context.Context) ([]openstack.Zone, error) {
	f.probes.Add(1)
	return f.compute, cmp.Or(f.computeErr, f.err)
}

func (f *fakeCloud) VolumeZones(context.Context) ([]openstack.Zone, error) {
	f.volumeLists++
	return f.volume, f.err
}

func (f *fakeCloud) VolumeTypes(context.Context) ([]openstack.Type, error) {
	f.typeLists++
	return f.types, f.typesErr
}

// lists makes probes succeed with these zones.
func (f *fakeCloud) lists(compute, volume []openstack.Zone) {
	f.compute, f.volume, f.err = compute, volume, nil
}

// offer makes probes succeed with zones that enable or disable topology.
func (f *fakeCloud) offer(topology bool) {
	f.lists(up("a"), up("elsewhere"))
	if topology {
		f.volume = f.compute
	}
}

// fail makes probes fail.
func (f *fakeCloud) fail(reason openstack.Reason) {
	f.err = &openstack.Error{Reason: reason, Message: "the cloud says " + string(reason)}
}

// fixture is an operator of Cinder whose controllers the test syncs.
type fixture struct {
	*clustertest.Fake
	dependencies plugin.Dependencies
	clock        *clocktesting.FakeClock
	cloud        *fakeCloud
	events       events.InMemoryRecorder
	zones        *zones.Tracker
	prober       *cloudprobe.Probe
	config       *configSync
	types        *volumeTypes
	secret       cluster.Object[corev1.Secret]
	credentials  *clustertest.Credentials
}

func newFixture(tb testing.TB, seed clustertest.Seed) *fixture {
	tb.Helper()
	b := unstarted(tb, seed)
	b.Start(tb)
	return b
}

// unstarted is newFixture with empty caches.
func unstarted(tb testing.TB, seed clustertest.Seed) *fixture {
	tb.Helper()
	seed.OperatorNamespace = flavour.DefaultNamespace
	if seed.Flavour == flavour.HyperShift {
		seed.OperatorNamespace = hosted
	}
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	b := &fixture{
		Fake: clustertest.New(tb, seed), clock: clock, cloud: &fakeCloud{},
		events: events.NewInMemoryRecorder("test", clock),
	}
	b.dependencies = plugin.Dependencies{
		Driver: string(opv1.CinderCSIDriver), Cluster: b.Cluster,
		Settings: &settings.Settings{CloudGracePeriod: grace, PollInterval: poll},
		Events:   b.events, Clock: clock,
	}
	b.State.Clock = clock
	b.cloud.offer(true)
	b.restart()
	return b
}

// restart creates new controllers, as a new process does.
func (b *fixture) restart() {
	s, sources := b.dependencies, newSources(b.Cluster)
	b.secret = b.Secret(flavour.ControlPlane, b.Namespaces.ControlPlane, credentialsSecret)
	b.credentials = &clustertest.Credentials{Read: func() (clouds.Content, error) {
		secret := b.secret.Get()
		if secret == nil {
			return clouds.Content{}, errors.New(b.secret.Name + " is missing")
		}
		ca, name, err := sources.authority()
		return clouds.Content{
			Name: b.secret.Name, Data: secret.Data, CA: ca, CAName: name, CAErr: err,
		}, nil
	}}
	b.zones = newTracker(s, sources, nil)
	b.zones.Connect = func(context.Context) (zones.Cloud, error) { return b.cloud, nil }
	b.types = newVolumeTypes(s, sources.choices, nil)
	b.types.connect = func(context.Context) (typeLister, error) { return b.cloud, nil }
	b.config = newConfigSync(s, sources, b.zones, b.types, b.credentials)
	b.prober = newProbe(s, sources, b.zones, b.types, b.credentials)
}

func (b *fixture) advance(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

// probe sends a probe if one is due.
func (b *fixture) probe(t *testing.T) {
	t.Helper()
	assert.NilError(t, b.prober.Sync(t.Context(), factory.NewSyncContext("test", b.events)))
}

// trigger sends a probe, as an event of the administrator's ConfigMap does.
func (b *fixture) trigger(t *testing.T) {
	t.Helper()
	b.prober.MakeDue(nil)
	b.probe(t)
}

// settle probes the zones as often as a decision takes to change, and configures the driver.
func (b *fixture) settle(t *testing.T) {
	t.Helper()
	for range zones.Settle {
		b.advance(poll)
		b.trigger(t)
	}
	assert.NilError(t, b.sync(t))
}

// sync probes the zones if that is due, and configures the driver.
func (b *fixture) sync(t *testing.T) error {
	t.Helper()
	b.probe(t)
	written := b.config.loginWritten()
	err := b.configure(t)
	if !written && b.config.loginWritten() && err == nil {
		err = b.configure(t) // as the event of the login does
	}
	return err
}

// configure configures the driver, and waits for the caches.
func (b *fixture) configure(t *testing.T) error {
	t.Helper()
	err := b.config.Sync(t.Context(), factory.NewSyncContext("test", b.events))
	b.catchUp(t)
	return err
}

// catchUp waits until the caches have what the API servers have.
func (b *fixture) catchUp(t *testing.T) {
	t.Helper()
	for _, side := range b.config.sides() {
		clustertest.CatchUp(t, b.client(side).CoreV1().ConfigMaps(b.Namespaces.On(side)), configMap,
			b.config.cloudConf(side).Get)
	}
	namespace, name := b.Namespaces.UserConfig, b.Namespaces.CloudConfig
	configMaps := b.ControlPlane.CoreV1().ConfigMaps(namespace)
	clustertest.CatchUp(t, configMaps, userConfigMap, b.config.sources.choices.Object.Get)
	clustertest.CatchUp(t, configMaps, name, func() *corev1.ConfigMap {
		found, _ := b.config.sources.installed.ConfigMaps(namespace).Get(name)
		return found
	})
	secrets := b.ControlPlane.CoreV1().Secrets(b.Namespaces.ControlPlane)
	clustertest.CatchUp(t, secrets, credentialsSecret, b.secret.Get)
	clustertest.CatchUp(t, secrets, loginSecret, b.config.login.Get)
}

// put writes the administrator's ConfigMap for the driver, nil removes it a while ago.
func (b *fixture) put(t *testing.T, data map[string]string) {
	t.Helper()
	if data == nil {
		clustertest.Delete(t, b.ControlPlane, in(b.Namespaces.UserConfig, userObject(userConfigMap, nil)))
		b.catchUp(t)
		choices := b.config.sources.choices
		choices.Get()
		now := choices.Clock
		choices.Clock = clocktesting.NewFakePassiveClock(now.Now().Add(plugin.ReplacementTime))
		choices.Get()
		choices.Clock = now
		return
	}
	b.apply(t, userObject(userConfigMap, data))
}

// apply writes objects of the control plane side, ConfigMaps in the namespace of the administrator.
func (b *fixture) apply(t *testing.T, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		if user, ok := object.(*corev1.ConfigMap); ok {
			user.Namespace = b.Namespaces.UserConfig
		}
	}
	clustertest.Put(t, b.ControlPlane, objects...)
	b.catchUp(t)
}

// putCredentials writes the credentials' Secret.
func (b *fixture) putCredentials(t *testing.T, data map[string]string) {
	t.Helper()
	b.apply(t, credentials(b.Namespaces.ControlPlane, data))
}

// data returns the data of cloud-conf on a side, nil if cloud-conf does not exist.
func (b *fixture) data(side flavour.Side) map[string]string {
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	found, err := b.client(side).Tracker().Get(configMaps, b.Namespaces.On(side), configMap)
	if err != nil {
		return nil
	}
	return found.(*corev1.ConfigMap).Data
}

// condition is "status reason" of a condition.
func (b *fixture) condition(t *testing.T, conditionType string) string {
	t.Helper()
	found := b.State.Condition(t, conditionType)
	return string(found.Status) + " " + found.Reason
}

func (b *fixture) messages(reason string) []string { return clustertest.Messages(b.events, reason) }

// writes returns the writes to both sides, except those of the login.
func (b *fixture) writes() []string {
	return slices.DeleteFunc(b.Writes(), func(write string) bool {
		return strings.HasSuffix(write, loginSecret)
	})
}

func cloudsYAML(name string) string {
	return `{clouds: {` + name + `: {auth: {auth_url: "https://k.example", username: csi, password: ` +
		password + `, project_name: p, user_domain_name: d, project_domain_name: d}}}}`
}

func credentials(namespace string, data map[string]string) *corev1.Secret {
	content := map[string][]byte{}
	for key, value := range data {
		content[key] = []byte(value)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: credentialsSecret}, Data: content,
	}
}

func userObject(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: userNamespace, Name: name}, Data: data,
	}
}

// authority returns a CA bundle that starts with a name.
func authority(name string) string { return name + "\n" + clustertest.CA }

// cloudConf is a ConfigMap that an earlier run of the operator wrote.
func cloudConf(namespace string, data map[string]string) *corev1.ConfigMap {
	return in(namespace, userObject(configMap, data))
}

// written is a cloudConf with this topology.
func written(topology string) runtime.Object {
	return cloudConf(flavour.DefaultNamespace, keys{configKey: configText, topologyKey: topology})
}

// cloudProviderConfig is the ConfigMap with the CA that the operator trusts.
func cloudProviderConfig(data map[string]string) runtime.Object {
	return userObject("cloud-provider-config", data)
}

// manilasCopy is what cluster-storage-operator creates for Manila in the namespace of the operands.
func manilasCopy() runtime.Object {
	return in(flavour.DefaultNamespace, userObject("cloud-provider-config",
		keys{"config": "[BlockStorage]\na = 3\n", bundleKey: "Manila's"}))
}

// in moves a ConfigMap to another namespace.
func in(namespace string, object *corev1.ConfigMap) *corev1.ConfigMap {
	object.Namespace = namespace
	return object
}

func infrastructureWith(name, key string) *configv1.Infrastructure {
	return &configv1.Infrastructure{
		ObjectMeta: metav1.ObjectMeta{Name: guest.ConfigName},
		Spec: configv1.InfrastructureSpec{
			CloudConfig: configv1.ConfigMapFileReference{Name: name, Key: key},
		},
	}
}

// Short names for the tables of the tests.
type (
	keys    = map[string]string
	objects = []runtime.Object
)

// standalone has credentials and these objects.
func standalone(objects ...runtime.Object) clustertest.Seed {
	usual := credentials(flavour.DefaultNamespace, keys{clouds.Key: cloudsYAML("openstack")})
	return clustertest.Seed{Guest: append(objects, usual)}
}

// hyperShift returns a seed with credentials in both clusters. They differ, so that tests detect a
// read from the wrong cluster.
func hyperShift() clustertest.Seed {
	return clustertest.Seed{
		Flavour:      flavour.HyperShift,
		ControlPlane: objects{credentials(hosted, keys{clouds.Key: cloudsYAML("openstack")})},
		Guest: objects{credentials(flavour.DefaultNamespace, keys{
			clouds.Key: cloudsYAML("guests"), clouds.CAKey: authority("guest's"),
		})},
	}
}

// seeds returns a seed with credentials for each flavour.
func seeds() map[flavour.Flavour]clustertest.Seed {
	return map[flavour.Flavour]clustertest.Seed{
		flavour.Standalone: standalone(), flavour.HyperShift: hyperShift(),
	}
}

// client is the fake API server of a side.
func (b *fixture) client(side flavour.Side) *kubefake.Clientset {
	if side == flavour.ControlPlane {
		return b.ControlPlane
	}
	return b.Guest
}
