package cinder

import (
	"maps"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	configText = "[Global]\nuse-clouds = true\nclouds-file = " + mountedClouds +
		"\ncloud = openstack\n"
	withCA   = "ca-file = " + mountedCA + "\n"
	userText = "[BlockStorage]\nrescan-on-resize = true\n"
)

// cloudConf is a ConfigMap that an earlier run of the operator wrote.
func cloudConf(namespace string, data map[string]string) *corev1.ConfigMap {
	return in(namespace, userObject(configMap, data))
}

func TestCloudConfContent(t *testing.T) {
	t.Parallel()
	secret := func(data map[string]string) runtime.Object {
		return credentials(flavour.DefaultNamespace, data)
	}
	usual := secret(keys{openstack.CloudsKey: clouds("openstack")})
	withSecretCA := secret(keys{
		openstack.CloudsKey: clouds("openstack"), openstack.CAKey: authority("Secret's"),
	})
	installed := cloudProviderConfig
	for name, test := range map[string]struct {
		objects objects
		want    map[string]string
	}{
		"credentials alone": {
			objects{usual},
			keys{configKey: configText, topologyKey: "true"},
		},
		"a user's section": {
			objects{usual, userObject(userConfigMap, keys{userConfigKey: userText})},
			keys{configKey: configText + "\n" + userText, topologyKey: "true"},
		},
		"as installed": {
			objects{usual, installed(keys{"config": "[Global]\nsecret-name = x\n" + userText})},
			keys{configKey: configText + "\n" + userText, topologyKey: "true"},
		},
		"a user's topology": {
			objects{usual, userObject(userConfigMap, keys{userTopologyKey: "false"})},
			keys{configKey: configText, topologyKey: "false"},
		},
		"CA of the Secret": {
			objects{withSecretCA},
			keys{configKey: configText + withCA, topologyKey: "true", bundleKey: authority("Secret's")},
		},
		"CA of the ConfigMap": {
			objects{usual, installed(keys{bundleKey: authority("ConfigMap's")})},
			keys{configKey: configText + withCA, topologyKey: "true", bundleKey: authority("ConfigMap's")},
		},
		"CA of both": {
			objects{withSecretCA, installed(keys{bundleKey: authority("ConfigMap's")})},
			keys{configKey: configText + withCA, topologyKey: "true", bundleKey: authority("Secret's")},
		},
		"what Manila's operator makes does not count": {
			objects{usual, manilasCopy()},
			keys{configKey: configText, topologyKey: "true"},
		},
		"another cloud": {
			objects{secret(keys{openstack.CloudsKey: clouds("my cloud")})},
			keys{
				configKey:   strings.Replace(configText, "= openstack", `= "my cloud"`, 1),
				topologyKey: "true",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := objects{infrastructureWith("cloud-provider-config", "config")}
			b := newFixture(t, clustertest.Seed{Guest: test.objects, Config: config})
			assert.Check(t, !b.config.written(), "there is a configuration before it was written")
			assert.NilError(t, b.sync(t))
			assert.Check(t, is.DeepEqual(test.want, b.data(t, flavour.Guest)), "cloud-conf")
			if got := b.condition(t, progressingType); got != "False AsExpected" || !b.config.written() {
				t.Errorf("%s is %q, written is %v", progressingType, got, b.config.written())
			}
		})
	}
}

// TestCloudConfIsWrittenOnlyIfItDiffers checks that the controller writes a ConfigMap only if it is
// missing or differs, once, and on this side only.
func TestCloudConfIsWrittenOnlyIfItDiffers(t *testing.T) {
	t.Parallel()
	for f, seed := range seeds() {
		for _, side := range newFixture(t, seed).config.sides() {
			t.Run(string(f)+" "+string(side), func(t *testing.T) {
				t.Parallel()
				b := newFixture(t, seed)
				assert.NilError(t, b.sync(t))
				writes := b.writes()
				want := len(b.config.sides())
				assert.Check(t, len(writes) == want && writes[0] == "create configmaps/cloud-conf",
					"writes at first: %v, want %d", writes, want)
				testRepairs(t, b, side)
			})
		}
	}
}

func testRepairs(t *testing.T, b *fixture, side flavour.Side) {
	t.Helper()
	want := keys{configKey: configText, topologyKey: "true"}
	namespace := b.Namespaces.On(side)
	api := b.client(side).CoreV1().ConfigMaps(namespace)
	update := func(object *corev1.ConfigMap) error {
		_, err := api.Update(t.Context(), object, metav1.UpdateOptions{})
		return err
	}
	foreign, binary := maps.Clone(want), cloudConf(namespace, want)
	foreign["foreign"], binary.BinaryData = "x", map[string][]byte{"foreign": {1}}
	const updated = "update configmaps/cloud-conf"
	for _, step := range []struct {
		name  string
		spoil func() error
		want  []string
	}{
		{"when equal", func() error { return nil }, nil},
		{"after it was changed", func() error {
			return update(cloudConf(namespace, keys{configKey: "", topologyKey: "true"}))
		}, []string{updated}},
		{
			"with foreign keys", func() error { return update(cloudConf(namespace, foreign)) },
			[]string{updated},
		},
		{"with foreign binary keys", func() error { return update(binary) }, []string{updated}},
		{"after it was deleted", func() error {
			return api.Delete(t.Context(), configMap, metav1.DeleteOptions{})
		}, []string{"create configmaps/cloud-conf"}},
		{"in the end", func() error { return nil }, nil},
	} {
		assert.NilError(t, step.spoil())
		b.awaitCloudConf(t, side)
		b.writes()
		assert.NilError(t, b.sync(t))
		assert.Check(t, is.DeepEqual(step.want, clustertest.Writes(b.client(side))),
			"writes %s", step.name)
		if others := b.writes(); len(others) > 0 {
			t.Errorf("%s the other side is written to: %v", step.name, others)
		}
		assert.Check(t, is.DeepEqual(want, b.data(t, side)), "cloud-conf %s", step.name)
	}
}

// TestErrorsBeforeTheFirstAnswer checks that errors unrelated to the cloud are reported
// immediately.
func TestErrorsBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone(userObject(userConfigMap, keys{userConfigKey: "\n["})))
	b.cloud.fail("CloudUnreachable")
	if err := b.sync(t); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want the line", err)
	}
	if got := b.data(t, flavour.Guest); got != nil {
		t.Errorf("cloud-conf is %v", got)
	}
}

func TestUnmanagedIsNotConfigured(t *testing.T) {
	t.Parallel()
	for f, seed := range seeds() {
		b := newFixture(t, seed)
		unmanaged := opv1.OperatorSpec{ManagementState: opv1.Unmanaged}
		b.State.Set(t, &opv1.ClusterCSIDriver{Spec: opv1.ClusterCSIDriverSpec{OperatorSpec: unmanaged}})
		b.writes()
		assert.NilError(t, b.sync(t))
		writes, conditions := b.writes(), b.State.Conditions(t)
		assert.Check(t, len(writes) <= 0 && len(conditions) <= 0,
			"%s: writes %v, conditions %v, want none", f, writes, conditions)
	}
}

// TestEventsTriggerReconcileOfCloudConf runs the real controllers and checks that an event of any
// source, or of cloud-conf, triggers a reconcile of cloud-conf.
func TestEventsTriggerReconcileOfCloudConf(t *testing.T) {
	t.Parallel()
	for f, seed := range seeds() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			seed.Config = objects{infrastructureWith("cloud-provider-config", "config")}
			b := newFixture(t, seed)
			go b.prober.Run(t.Context(), 1)
			go b.config.Run(t.Context(), 1)
			expect := func(what, key, part string) {
				t.Helper()
				for _, side := range b.config.sides() {
					b.await(t, what, func() bool {
						existing := b.config.cloudConf(side).Get()
						return existing != nil && strings.Contains(existing.Data[key], part)
					})
				}
			}
			expect("the first configuration", configKey, "cloud = openstack")
			probes := b.cloud.count()
			b.put(t, keys{userConfigKey: userText})
			expect("the user's configuration", configKey, "rescan-on-resize")
			b.await(t, "the probe that it triggers", func() bool { return b.cloud.count() > probes })
			b.putConfigMap(t, b.Namespaces.CloudConfig, keys{bundleKey: authority("ConfigMap's")})
			expect("the CA", bundleKey, "ConfigMap's")
			b.putCredentials(t, keys{
				openstack.CloudsKey: clouds("other"), openstack.CAKey: authority("Secret's"),
			})
			b.zones.changed.Notify() // as the event of the accepted login does
			expect("other credentials", configKey, "cloud = other")
			expect("their CA", bundleKey, "Secret's")
			for _, side := range b.config.sides() {
				namespace := b.Namespaces.On(side)
				api := b.client(side).CoreV1().ConfigMaps(namespace)
				assert.NilError(t, api.Delete(t.Context(), configMap, metav1.DeleteOptions{}))
				b.await(t, "the configuration that was deleted", func() bool { return b.data(t, side) != nil })
				empty := cloudConf(namespace, nil)
				if _, err := api.Update(t.Context(), empty, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				b.await(t, "the configuration that was edited", func() bool { return len(b.data(t, side)) > 0 })
			}
		})
	}
}
