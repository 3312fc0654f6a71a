package cinder

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	configText = "[Global]\nuse-clouds = true\nclouds-file = " + mountedClouds +
		"\ncloud = openstack\n"
	caText   = "ca-file = " + mountedCA + "\n"
	userText = "[BlockStorage]\nrescan-on-resize = true\n"
)

// expectConf configures the driver, and expects a cloud-conf on each side.
func (b *fixture) expectConf(t *testing.T, name string, want map[string]string) {
	t.Helper()
	assert.Check(t, !b.config.written(), "there is a configuration before it was written")
	assert.NilError(t, b.sync(t))
	for _, side := range b.config.sides() {
		assert.Check(t, is.DeepEqual(want, b.data(side)), "cloud-conf of the %s, %s", side, name)
	}
	assert.Check(t, is.Equal(b.condition(t, progressingType), "False AsExpected"))
	assert.Check(t, b.config.written())
}

func TestCloudConfContent(t *testing.T) {
	t.Parallel()
	installed := cloudProviderConfig
	usual := keys{openstack.CloudsKey: clouds("openstack")}
	withSecretCA := keys{
		openstack.CloudsKey: clouds("openstack"), openstack.CAKey: authority("Secret's"),
	}
	content := func(section, topology, ca string) keys {
		conf := keys{configKey: configText + section, topologyKey: topology}
		if ca != "" {
			conf[configKey], conf[bundleKey] = configText+caText+section, authority(ca)
		}
		return conf
	}
	other := content("", "true", "")
	other[configKey] = strings.Replace(configText, "= openstack", `= "my cloud"`, 1)
	for name, test := range map[string]struct {
		secret map[string]string
		object runtime.Object
		want   map[string]string
	}{
		"what Manila's operator makes does not count": {usual, manilasCopy(), content("", "true", "")},
		"a user's choice": {
			usual,
			userObject(userConfigMap, keys{userConfigKey: userText, userTopologyKey: "false"}),
			content("\n"+userText, "false", ""),
		},
		"as installed": {
			usual, installed(keys{"config": "[Global]\nsecret-name = x\n" + userText}),
			content("\n"+userText, "true", ""),
		},
		"CA of the ConfigMap": {
			usual, installed(keys{bundleKey: authority("ConfigMap's")}), content("", "true", "ConfigMap's"),
		},
		"CA of both": {
			withSecretCA, installed(keys{bundleKey: authority("ConfigMap's")}),
			content("", "true", "Secret's"),
		},
		"another cloud": {keys{openstack.CloudsKey: clouds("my cloud")}, manilasCopy(), other},
	} {
		newFixture(t, clustertest.Seed{
			Guest:  objects{credentials(flavour.DefaultNamespace, test.secret), test.object},
			Config: objects{infrastructureWith("cloud-provider-config", "config")},
		}).expectConf(t, name, test.want)
	}
}

// The administrator of a guest cluster must not configure the controllers.
func TestGuestClusterDoesNotChangeCloudConf(t *testing.T) {
	t.Parallel()
	theirs := objects{
		userObject(userConfigMap, keys{userConfigKey: "[BlockStorage]\na = 1\n", userTopologyKey: "x"}),
		userObject("theirs", keys{"config": userText, bundleKey: authority("theirs")}), manilasCopy(),
	}
	for name, test := range map[string]struct {
		controller objects
		want       map[string]string
	}{
		"nothing of the management cluster": {
			objects{in(hosted, userObject("theirs", keys{
				"config": userText, bundleKey: authority("a namesake"),
			}))},
			keys{configKey: configText, topologyKey: "true"},
		},
		"its administrator's choice, and the CA of the cloud": {
			objects{
				in(hosted, userObject(userConfigMap, keys{userConfigKey: userText, userTopologyKey: "false"})),
				in(hosted, userObject("openstack-cloud-config", keys{
					bundleKey: authority("ConfigMap's"), "cloud.conf": "x = 1", "config": "x = 1", "": "x = 1",
				})),
			},
			keys{
				configKey: configText + caText + "\n" + userText, topologyKey: "false",
				bundleKey: authority("ConfigMap's"),
			},
		},
	} {
		seed := hyperShift()
		seed.ControlPlane = append(seed.ControlPlane, test.controller...)
		seed.Guest = append(seed.Guest, theirs...)
		seed.Config = objects{infrastructureWith("theirs", "config")}
		newFixture(t, seed).expectConf(t, name, test.want)
	}
}

func TestRequestsStayOnTheirSide(t *testing.T) {
	t.Parallel()
	b := newFixture(t, hyperShift())
	assert.NilError(t, b.sync(t))
	assert.Check(t, newSources(b.Cluster).infrastructures == nil,
		"the guest's Infrastructure is a source of the configuration")
	for side, want := range map[flavour.Side][]string{
		flavour.ControlPlane: {"configmaps in clusters-a", "secrets in clusters-a"},
		flavour.Guest:        {"configmaps in openshift-cluster-csi-drivers", "storageclasses in "},
	} {
		var got []string
		for _, action := range b.client(side).Actions() {
			got = append(got, action.GetResource().Resource+" in "+action.GetNamespace())
		}
		slices.Sort(got)
		assert.Check(t, is.DeepEqual(want, slices.Compact(got)), "requests to the %s", side)
	}
}

func TestCloudConfIsWrittenOnlyIfItDiffers(t *testing.T) {
	t.Parallel()
	const created, updated = "create configmaps/cloud-conf", "update configmaps/cloud-conf"
	for f, seed := range seeds() {
		b := newFixture(t, seed)
		assert.NilError(t, b.sync(t))
		assert.Check(t, is.DeepEqual(slices.Repeat([]string{created}, len(b.config.sides())), b.writes()))
		for _, side := range b.config.sides() {
			want := b.data(side)
			namespace := b.Namespaces.On(side)
			foreign, binary := maps.Clone(want), cloudConf(namespace, want)
			foreign["foreign"], binary.BinaryData = "x", map[string][]byte{"foreign": {1}}
			for name, spoiled := range map[string]*corev1.ConfigMap{
				"equal": cloudConf(namespace, want), "with foreign keys": cloudConf(namespace, foreign),
				"changed":                  cloudConf(namespace, keys{topologyKey: "true"}),
				"with foreign binary keys": binary, "deleted": nil,
			} {
				writes := []string{updated}
				if name == "equal" {
					writes = nil
				}
				if clustertest.Put(t, b.client(side), cmp.Or(spoiled, binary)); spoiled == nil {
					writes = []string{created}
					clustertest.Delete(t, b.client(side), binary)
				}
				b.catchUp(t)
				assert.NilError(t, b.sync(t))
				assert.Check(t, is.DeepEqual(writes, clustertest.Writes(b.client(side))), "%s, %s", f, name)
				assert.Check(t, is.Len(b.writes(), 0), "writes to the other side, %s, %s", f, name)
				assert.Check(t, is.DeepEqual(want, b.data(side)), "%s, %s", f, name)
			}
		}
	}
}

func TestFailureOnOneSideDoesNotBlockTheOther(t *testing.T) {
	t.Parallel()
	for failing, want := range map[flavour.Side]string{
		flavour.ControlPlane: "writing ConfigMap clusters-a/cloud-conf " +
			"of the management cluster: refused",
		flavour.Guest: "writing ConfigMap openshift-cluster-csi-drivers/cloud-conf " +
			"of the guest cluster: refused",
	} {
		t.Run(string(failing), func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, hyperShift())
			other := flavour.Sides()[1-slices.Index(flavour.Sides(), failing)]
			down := true
			b.client(failing).PrependReactor("*", "configmaps", func(
				action clienttesting.Action,
			) (bool, runtime.Object, error) {
				return down && action.GetVerb() != "get", nil, errors.New("refused")
			})
			assert.Check(t, is.Error(b.sync(t), want))
			assert.Check(t, !b.config.written() && b.data(other) != nil)
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False SyncError"))
			down = false
			assert.NilError(t, b.sync(t))
			assert.Check(t, b.config.written())
			down = true
			b.put(t, keys{userConfigKey: userText})
			assert.Check(t, is.Error(b.sync(t), want))
			for _, side := range flavour.Sides() {
				changed := strings.Contains(b.data(side)[configKey], userText)
				assert.Check(t, is.Equal(changed, side == other), "the %s side has the change", side)
			}
		})
	}
}

func TestUnmanagedOperatorNeitherProbesNorWrites(t *testing.T) {
	t.Parallel()
	for f, seed := range seeds() {
		b := newFixture(t, seed)
		unmanaged := opv1.OperatorSpec{ManagementState: opv1.Unmanaged}
		b.State.Set(t, &opv1.ClusterCSIDriver{Spec: opv1.ClusterCSIDriverSpec{OperatorSpec: unmanaged}})
		b.writes()
		b.trigger(t)
		assert.NilError(t, b.sync(t))
		assert.Check(t, is.Len(b.writes(), 0), "%s", f)
		assert.Check(t, is.Len(b.State.Conditions(t), 0), "%s", f)
		assert.Check(t, b.cloud.probes+b.cloud.volumeLists == 0 && !b.config.loginWritten(), "%s", f)
	}
}

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
				clustertest.Eventually(t, func() bool {
					return !slices.ContainsFunc(b.config.sides(), func(side flavour.Side) bool {
						return !strings.Contains(b.data(side)[key], part)
					})
				}, what)
			}
			expect("the first configuration", configKey, "cloud = openstack")
			probes := b.cloud.count()
			b.put(t, keys{userConfigKey: userText})
			expect("the user's configuration", configKey, "rescan-on-resize")
			clustertest.Eventually(t, func() bool { return b.cloud.count() > probes }, "a probe")
			b.apply(t, userObject(b.Namespaces.CloudConfig, keys{bundleKey: authority("ConfigMap's")}))
			expect("the CA", bundleKey, "ConfigMap's")
			b.putCredentials(t, keys{
				openstack.CloudsKey: clouds("other"), openstack.CAKey: authority("Secret's"),
			})
			b.zones.changed.Notify() // as the event of the accepted login does
			expect("other credentials", configKey, "cloud = other")
			expect("their CA", bundleKey, "Secret's")
			for _, side := range b.config.sides() {
				namespace := b.Namespaces.On(side)
				clustertest.Delete(t, b.client(side), cloudConf(namespace, nil))
				expect("the configuration that was deleted", configKey, "cloud = other")
				clustertest.Put(t, b.client(side), cloudConf(namespace, nil))
				expect("the configuration that was edited", configKey, "cloud = other")
			}
		})
	}
}
