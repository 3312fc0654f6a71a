package cinder

import (
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

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
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
	ofConfigMap, ofSecret := authority("ConfigMap's"), authority("Secret's")
	for name, test := range map[string]struct {
		secret keys
		object runtime.Object
		want   keys
	}{
		"another cloud, and what Manila's operator makes": {
			keys{clouds.Key: cloudsYAML("my cloud")},
			manilasCopy(),
			keys{
				configKey:   strings.Replace(configText, "= openstack", `= "my cloud"`, 1),
				topologyKey: "true",
			},
		},
		"a user's choice": {
			keys{clouds.Key: cloudsYAML("openstack")},
			userObject(userConfigMap, keys{userConfigKey: userText, userTopologyKey: "false"}),
			keys{configKey: configText + "\n" + userText, topologyKey: "false"},
		},
		"as installed, with a CA": {
			keys{clouds.Key: cloudsYAML("openstack")},
			cloudProviderConfig(keys{
				"config": "[Global]\nsecret-name = x\n" + userText, bundleKey: ofConfigMap,
			}),
			keys{
				configKey: configText + caText + "\n" + userText, topologyKey: "true",
				bundleKey: ofConfigMap,
			},
		},
		"CA of both": {
			keys{clouds.Key: cloudsYAML("openstack"), clouds.CAKey: ofSecret},
			cloudProviderConfig(keys{bundleKey: ofConfigMap}),
			keys{configKey: configText + caText, topologyKey: "true", bundleKey: ofSecret},
		},
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
	for f, seed := range seeds() {
		b := newFixture(t, seed)
		assert.NilError(t, b.sync(t))
		created := slices.Repeat([]string{"create configmaps/cloud-conf"}, len(b.config.sides()))
		assert.Check(t, is.DeepEqual(created, b.writes()), "%s", f)
		assert.NilError(t, b.sync(t))
		assert.Check(t, is.Len(b.writes(), 0), "an equal one is written, %s", f)
		for _, side := range b.config.sides() {
			want := b.data(side)
			for name, spoil := range map[string]func(*corev1.ConfigMap){
				"foreign key":        func(c *corev1.ConfigMap) { c.Data["foreign"] = "x" },
				"foreign binary key": func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"b": {1}} },
				"changed":            func(c *corev1.ConfigMap) { delete(c.Data, configKey) },
			} {
				spoiled := cloudConf(b.Namespaces.On(side), maps.Clone(want))
				spoil(spoiled)
				clustertest.Put(t, b.client(side), spoiled)
				b.catchUp(t)
				assert.NilError(t, b.sync(t))
				writes := clustertest.Writes(b.client(side))
				assert.Check(t, is.DeepEqual([]string{"update configmaps/cloud-conf"}, writes), name)
				assert.Check(t, is.Len(b.writes(), 0), "writes to the other side, %s, %s", f, name)
				assert.Check(t, is.DeepEqual(want, b.data(side)), "%s, %s", f, name)
			}
		}
	}
}

func TestFailureOnOneSideDoesNotBlockTheOther(t *testing.T) {
	t.Parallel()
	for failing, object := range map[flavour.Side]string{
		flavour.ControlPlane: "clusters-a/cloud-conf of the management cluster",
		flavour.Guest:        "openshift-cluster-csi-drivers/cloud-conf of the guest cluster",
	} {
		want := "writing ConfigMap " + object + ": refused"
		b := newFixture(t, hyperShift())
		other := flavour.Sides()[1-slices.Index(flavour.Sides(), failing)]
		down := true
		b.client(failing).PrependReactor("*", "configmaps", func(
			action clienttesting.Action,
		) (bool, runtime.Object, error) {
			return down && action.GetVerb() != "get", nil, errors.New("refused")
		})
		assert.Check(t, is.Error(b.sync(t), want))
		assert.Check(t, !b.config.written() && b.data(other) != nil, "%s", failing)
		assert.Check(t, is.Equal(b.condition(t, progressingType), "False SyncError"))
		down = false
		assert.NilError(t, b.sync(t))
		assert.Check(t, b.config.written(), "%s", failing)
		down = true
		b.put(t, keys{userConfigKey: userText})
		assert.Check(t, is.Error(b.sync(t), want))
		for _, side := range flavour.Sides() {
			changed := strings.Contains(b.data(side)[configKey], userText)
			assert.Check(t, is.Equal(changed, side == other), "the %s side has the change", side)
		}
	}
}

func TestUnmanagedOperatorNeitherProbesNorWrites(t *testing.T) {
	t.Parallel()
	for f, seed := range seeds() {
		b := newFixture(t, seed)
		unmanaged := opv1.OperatorSpec{ManagementState: opv1.Unmanaged}
		b.State.Set(t, &opv1.ClusterCSIDriver{Spec: opv1.ClusterCSIDriverSpec{OperatorSpec: unmanaged}})
		b.trigger(t)
		assert.NilError(t, b.sync(t))
		assert.Check(t, is.Len(b.Writes(), 0), "%s", f)
		assert.Check(t, is.Len(b.State.Conditions(t), 0), "%s", f)
		assert.Check(t, is.Equal(b.cloud.volumeLists, 0), "%s", f)
	}
}

func TestEventsTriggerReconcileOfCloudConf(t *testing.T) {
	t.Parallel()
	for f, seed := range seeds() {
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
			}, string(f)+": "+what)
		}
		expect("the first configuration", configKey, "cloud = openstack")
		probes := b.cloud.probes.Load()
		b.put(t, keys{userConfigKey: userText})
		expect("the user's configuration", configKey, "rescan-on-resize")
		clustertest.Eventually(t, func() bool { return b.cloud.probes.Load() > probes }, "a probe")
		b.apply(t, userObject(b.Namespaces.CloudConfig, keys{bundleKey: authority("ConfigMap's")}))
		expect("the CA", bundleKey, "ConfigMap's")
		b.putCredentials(t, keys{
			clouds.Key: cloudsYAML("other"), clouds.CAKey: authority("Secret's"),
		})
		b.zones.Changed.Notify() // as the event of the accepted login does
		expect("other credentials", configKey, "cloud = other")
		expect("their CA", bundleKey, "Secret's")
		for _, side := range b.config.sides() {
			empty := cloudConf(b.Namespaces.On(side), nil)
			clustertest.Delete(t, b.client(side), empty)
			expect("the configuration that was deleted", configKey, "cloud = other")
			clustertest.Put(t, b.client(side), empty)
			expect("the configuration that was edited", configKey, "cloud = other")
		}
	}
}

// Each mistake would prevent the driver from starting, or would lose a setting.
func TestLastGoodStays(t *testing.T) {
	t.Parallel()
	const (
		own    = "of ConfigMap openshift-config/cinder-csi-config"
		theirs = "key ca-bundle.pem of ConfigMap openshift-config/cloud-provider-config "
		secret = "Secret openshift-cluster-csi-drivers/openstack-cloud-credentials"
	)
	chosen := func(key, text string) runtime.Object {
		return userObject(userConfigMap, keys{key: text})
	}
	binary := func(name, key, text string) runtime.Object {
		object := userObject(name, nil)
		object.BinaryData = map[string][]byte{key: []byte(text)}
		return object
	}
	login := func(file, ca string) runtime.Object {
		data := keys{clouds.Key: file, clouds.CAKey: ca}
		return credentials(flavour.DefaultNamespace, data)
	}
	for want, object := range map[string]runtime.Object{
		"key config " + own + " cannot be used because of line 3": chosen(
			userConfigKey, userText+"a = \""+password+"\n"),
		"key enable_topology " + own + " is neither true nor false": chosen(userTopologyKey, password),
		"key config " + own + " is binary data": binary(
			userConfigMap, userConfigKey, "[BlockStorage]\n; "+password+"\xfc\n"),
		"key enable_topology " + own + " is binary data": binary(
			userConfigMap, userTopologyKey, "false\xff"),
		"key clouds.yaml of " + secret:         login("clouds: "+password, ""),
		secret + " is missing":                 nil,
		theirs + "contains no PEM certificate": cloudProviderConfig(keys{bundleKey: password}),
		theirs + "is binary data": binary("cloud-provider-config", bundleKey,
			"\xff"),
		theirs + "is larger than 512 KiB. Write only the CA": cloudProviderConfig(
			keys{bundleKey: strings.Repeat("x", 513<<10)}),
		"key config " + own + " cannot be used because of line 1: the text is larger than 32": chosen(
			userConfigKey, "[BlockStorage]\na = "+strings.Repeat("x", 32<<10)),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			good := login(cloudsYAML("openstack"), "")
			b := newFixture(t, standalone())
			assert.NilError(t, b.sync(t))
			before := b.data(flavour.Guest)
			if object != nil {
				b.apply(t, object)
			} else {
				clustertest.Delete(t, b.ControlPlane, good)
				b.catchUp(t)
			}
			b.writes()
			got := b.sync(t)
			assert.ErrorContains(t, got, want)
			assert.Check(t, !strings.Contains(got.Error(), password), "quotes what may be secret: %v", got)
			assert.Check(t, is.Len(b.writes(), 0))
			assert.Check(t, is.DeepEqual(before, b.data(flavour.Guest)), "cloud-conf")
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False SyncError"))
			b.apply(t, good, userObject(userConfigMap, nil), cloudProviderConfig(nil))
			assert.NilError(t, b.sync(t), "corrected")
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False AsExpected"))
		})
	}
}

func TestErrorsBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone(userObject(userConfigMap, keys{userConfigKey: "\n["})))
	b.cloud.fail("CloudUnreachable")
	assert.Check(t, is.ErrorContains(b.sync(t), "line 2"))
	assert.Check(t, b.data(flavour.Guest) == nil)
}

// A mistake of the administrator does not keep a new password from the driver. A login that needs
// another cloud-conf waits until the mistake is corrected.
func TestLoginIsWrittenBesideAMistake(t *testing.T) {
	t.Parallel()
	for name, mistake := range map[string]keys{
		"configuration": {userConfigKey: "\n["}, "topology": {userTopologyKey: "maybe"},
	} {
		b := newFixture(t, standalone())
		ca := authority("known")
		b.putCredentials(t, keys{clouds.Key: cloudsYAML("openstack"), clouds.CAKey: ca})
		assert.NilError(t, b.sync(t))
		before := b.data(flavour.Guest)
		b.put(t, mistake)
		b.restart() // which forgets what cloud-conf must contain
		rotated := strings.ReplaceAll(cloudsYAML("openstack"), password, "another")
		b.putCredentials(t, keys{clouds.Key: rotated, clouds.CAKey: ca})
		assert.Check(t, b.sync(t) != nil, "the mistake in %s is not reported", name)
		assert.Check(t, b.config.loginWritten(), name)
		assert.Check(t, is.DeepEqual(before, b.data(flavour.Guest)), name)
		controller, _ := hashes(t, b)
		assert.Check(t, is.Len(controller, 2), "hashes of the new login and of cloud-conf, %s", name)
		for _, unfit := range []keys{
			{clouds.Key: cloudsYAML("openstack"), clouds.CAKey: authority("new")},
			{clouds.Key: cloudsYAML("other"), clouds.CAKey: ca},
		} {
			b.putCredentials(t, unfit)
			assert.Check(t, b.sync(t) != nil, "the mistake in %s is not reported", name)
			assert.Check(t, !b.config.written(), "login beside another cloud-conf, %s", name)
		}
	}
}
