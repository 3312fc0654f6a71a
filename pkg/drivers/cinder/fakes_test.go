package cinder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
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

// session is another session with the cloud.
type session struct{ *fakeCloud }

// fakeCloud returns these zones, or an error.
type fakeCloud struct {
	mu              sync.Mutex
	compute, volume []openstack.Zone
	err             error
	renewed         bool // there is another session
	// probes counts the requests for compute zones, volumeLists those for volume zones.
	probes, volumeLists int
	// bounded is true if the last request had a deadline.
	bounded bool
	// types are the volume types, typesErr the error of a list of them; typeLists counts the lists.
	types     []openstack.Type
	typesErr  error
	typeLists int
	// hang makes requests wait until their context is done.
	hang bool
}

func (f *fakeCloud) ComputeZones(ctx context.Context) ([]openstack.Zone, error) {
	f.mu.Lock()
	f.probes++
	_, f.bounded = ctx.Deadline()
	hang, zones, err := f.hang, f.compute, f.err
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return zones, err
}

func (f *fakeCloud) VolumeZones(context.Context) ([]openstack.Zone, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.volumeLists++
	return f.volume, f.err
}

func (f *fakeCloud) VolumeTypes(context.Context) ([]openstack.Type, error) {
	f.typeLists++
	return f.types, f.typesErr
}

// count returns how many probes were sent.
func (f *fakeCloud) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probes
}

// offer makes probes succeed with zones that enable or disable topology.
func (f *fakeCloud) offer(topology bool) {
	f.compute, f.volume, f.err = up("a"), up("elsewhere"), nil
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
	clock    *clocktesting.FakeClock
	cloud    *fakeCloud
	events   events.InMemoryRecorder
	zones    *zoneTracker
	prober   *cloudprobe.Probe
	config   *configSync
	types    *volumeTypes
	secret   cluster.Object[corev1.Secret]
	accepted *clustertest.Credentials
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
	b.State.Clock = clock
	b.cloud.offer(true)
	b.restart()
	return b
}

// restart creates new controllers, as a new process does.
func (b *fixture) restart() {
	s := plugin.Dependencies{
		Cluster: b.Cluster, Settings: &settings.Settings{CloudGracePeriod: grace, PollInterval: poll},
		Events: b.events, Clock: b.clock,
	}
	sources := newSources(b.Cluster)
	b.secret = b.Secret(flavour.ControlPlane, b.Namespaces.ControlPlane, credentialsSecret)
	b.accepted = &clustertest.Credentials{Read: func() (openstack.Content, error) {
		secret := b.secret.Get()
		if secret == nil {
			return openstack.Content{}, errors.New(b.secret.Name + " is missing")
		}
		ca, name, err := sources.bundle()
		return openstack.Content{
			Name: b.secret.Name, Data: secret.Data, CA: ca, CAName: name, CAErr: err,
		}, nil
	}}
	b.zones = newZoneTracker(s, sources, nil)
	b.zones.connect = func(context.Context) (zoneLister, error) {
		if b.cloud.renewed {
			return session{b.cloud}, nil
		}
		return b.cloud, nil
	}
	b.types = newVolumeTypes(s, sources.choices, nil)
	b.types.connect = func(context.Context) (typeLister, error) { return b.cloud, nil }
	b.config = newConfigSync(s, sources, b.zones, b.types, b.accepted)
	b.prober = newProbe(s, b.zones, b.types, b.accepted)
}

func (b *fixture) advance(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

// probe sends a probe if one is due.
func (b *fixture) probe(t *testing.T) {
	t.Helper()
	assert.NilError(t, b.prober.Sync(t.Context(), nil))
}

// trigger sends a probe, as an event of the administrator's ConfigMap does.
func (b *fixture) trigger(t *testing.T) {
	t.Helper()
	b.prober.Trigger(nil)
	b.probe(t)
}

// settle probes the zones as often as a decision takes to change, and configures the driver.
func (b *fixture) settle(t *testing.T) {
	t.Helper()
	for range settleProbes {
		b.advance(poll)
		b.trigger(t)
	}
	assert.Check(t, b.sync(t))
}

// sync probes the zones if that is due, configures the driver, and waits for the caches.
func (b *fixture) sync(t *testing.T) error {
	t.Helper()
	b.probe(t)
	written := b.config.loginWritten()
	err := b.config.Sync(t.Context(), factory.NewSyncContext("test", b.events))
	if accepted, _ := b.accepted.Accepted(); !written && b.config.wanted.Load() != nil && err == nil {
		b.await(t, "the login "+accepted.Login.Entry, b.config.loginWritten)
		err = b.config.Sync(t.Context(), factory.NewSyncContext("test", b.events)) // as its event does
	}
	for _, side := range b.config.sides() {
		b.awaitCloudConf(t, side)
	}
	return err
}

// awaitCloudConf waits until the cache contains the ConfigMap of the API server.
func (b *fixture) awaitCloudConf(t *testing.T, side flavour.Side) {
	t.Helper()
	served, err := b.Side(side).Kube.CoreV1().ConfigMaps(b.Namespaces.On(side)).
		Get(t.Context(), configMap, metav1.GetOptions{})
	assert.Assert(t, err == nil || apierrors.IsNotFound(err), err)
	b.await(t, "cloud-conf", func() bool {
		cached := b.config.cloudConf(side).Get()
		if cached == nil || err != nil {
			return cached == nil && err != nil
		}
		return maps.Equal(cached.Data, served.Data) && len(cached.BinaryData) == len(served.BinaryData)
	})
}

func (*fixture) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) {
			return done(), nil
		})
	assert.Assert(t, err == nil, "the cache does not contain %s", what)
}

// put writes the administrator's ConfigMap for the driver, nil removes it.
func (b *fixture) put(t *testing.T, data map[string]string) {
	t.Helper()
	b.putConfigMap(t, userConfigMap, data)
}

// putConfigMap writes a ConfigMap on the control plane side; nil removes it.
func (b *fixture) putConfigMap(t *testing.T, name string, data map[string]string) {
	t.Helper()
	namespace := b.Namespaces.UserConfig
	api, object := b.ControlPlane.CoreV1().ConfigMaps(namespace), in(namespace, userObject(name, data))
	var err error
	if data == nil {
		err = api.Delete(t.Context(), name, metav1.DeleteOptions{})
	} else if _, err = api.Update(
		t.Context(), object, metav1.UpdateOptions{},
	); apierrors.IsNotFound(err) {
		_, err = api.Create(t.Context(), object, metav1.CreateOptions{})
	}
	assert.NilError(t, err)
	b.await(t, name, func() bool {
		cached, _ := b.config.sources.installed.Lister().ConfigMaps(namespace).Get(name)
		if name == userConfigMap {
			cached = b.config.sources.choices.Get()
		}
		return data == nil && cached == nil || cached != nil && maps.Equal(cached.Data, data)
	})
}

// putBinary writes bytes that are not text into the administrator's ConfigMap for the driver.
func (b *fixture) putBinary(t *testing.T, data map[string][]byte) {
	t.Helper()
	object := userObject(userConfigMap, nil)
	object.BinaryData = data
	api := b.ControlPlane.CoreV1().ConfigMaps(userNamespace)
	if _, err := api.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.await(t, userConfigMap, func() bool {
		cached := b.config.sources.choices.Get()
		return cached != nil && len(cached.BinaryData) == len(data)
	})
}

// putCredentials writes the credentials' Secret, nil removes it.
func (b *fixture) putCredentials(t *testing.T, data map[string]string) {
	t.Helper()
	secret := credentials(b.Namespaces.ControlPlane, data)
	api := b.ControlPlane.CoreV1().Secrets(secret.Namespace)
	var err error
	if data == nil {
		err = api.Delete(t.Context(), secret.Name, metav1.DeleteOptions{})
	} else {
		_, err = api.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	assert.NilError(t, err)
	b.await(t, secret.Name, func() bool {
		cached := b.secret.Get()
		return data == nil && cached == nil ||
			cached != nil && len(cached.Data) == len(data) &&
				string(cached.Data[openstack.CloudsKey]) == data[openstack.CloudsKey]
	})
}

// data returns the data of cloud-conf on a side, nil if cloud-conf does not exist.
func (b *fixture) data(t *testing.T, side flavour.Side) map[string]string {
	t.Helper()
	found, err := b.Side(side).Kube.CoreV1().ConfigMaps(b.Namespaces.On(side)).
		Get(t.Context(), configMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	assert.NilError(t, err)
	return found.Data
}

// condition is "status reason" of a condition, "" if it does not exist.
func (b *fixture) condition(t *testing.T, conditionType string) string {
	t.Helper()
	found := v1helpers.FindOperatorCondition(b.State.Conditions(t), conditionType)
	if found == nil {
		return ""
	}
	return string(found.Status) + " " + found.Reason
}

// writes returns the writes to both sides, except those of the login.
func (b *fixture) writes() []string {
	ret := clustertest.Writes(b.Guest)
	if b.ControlPlane != b.Guest {
		ret = append(ret, clustertest.Writes(b.ControlPlane)...)
	}
	return slices.DeleteFunc(ret, func(write string) bool {
		return strings.HasSuffix(write, loginSecret)
	})
}

func clouds(name string) string {
	return `{clouds: {` + name +
		`: {auth: {auth_url: "https://keystone.example", username: csi, password: ` +
		password + `, project_name: p, user_domain_name: d, project_domain_name: d}}}}`
}

func credentials(namespace string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: credentialsSecret},
		Data:       map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

func userObject(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: userNamespace, Name: name}, Data: data,
	}
}

// authority returns a CA bundle that starts with a name.
func authority(name string) string {
	return name + "\n" + testCA
}

// testCA is a self-signed certificate.
const testCA = `-----BEGIN CERTIFICATE-----
MIIBNDCB56ADAgECAhQ3ezIqX0LKB6HikMgrQU3n5T9LwDAFBgMrZXAwDzENMAsG
A1UEAwwEdGVzdDAgFw0yNjExMjEyMjQ5NTBaGA8yMTI2MTAyODIyNDk1MFowDzEN
MAsGA1UEAwwEdGVzdDAqMAUGAytlcAMhANqlbNQCt7SFh/NgLzM1z526f/NITIqi
0ol0f85B0qYKo1MwUTAdBgNVHQ4EFgQUgSf3aw5fmd/zqhSbTEbdh4NE5AUwHwYD
VR0jBBgwFoAUgSf3aw5fmd/zqhSbTEbdh4NE5AUwDwYDVR0TAQH/BAUwAwEB/zAF
BgMrZXADQQCIPCQukXEizv6X3vcNPcx50Y8jPlPbVw81e3qxlOupFFad/96Kf6Ha
2Iir4GVXI8MOfnTkfcahhQaCUSNa4pIH
-----END CERTIFICATE-----
`

// in moves an object to another namespace.
func in[T metav1.Object](namespace string, object T) T {
	object.SetNamespace(namespace)
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
	usual := credentials(flavour.DefaultNamespace, keys{openstack.CloudsKey: clouds("openstack")})
	return clustertest.Seed{Guest: append(objects, usual)}
}

// hyperShift returns a seed with credentials in both clusters. They differ, so that tests detect a
// read from the wrong cluster.
func hyperShift() clustertest.Seed {
	return clustertest.Seed{
		Flavour:      flavour.HyperShift,
		ControlPlane: objects{credentials(hosted, keys{openstack.CloudsKey: clouds("openstack")})},
		Guest: objects{credentials(flavour.DefaultNamespace, keys{
			openstack.CloudsKey: clouds("guests"), openstack.CAKey: authority("guest's"),
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
