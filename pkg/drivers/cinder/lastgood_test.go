package cinder

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// mistake is an object that an administrator writes, nil to remove the credentials, and the texts
// that the error must contain.
type mistake struct {
	object runtime.Object
	want   []string
}

// mistakes returns mistakes that would prevent the driver from starting, or would lose a setting.
func mistakes() map[string]mistake {
	const (
		own    = "of ConfigMap openshift-config/cinder-csi-config"
		secret = "Secret openshift-cluster-csi-drivers/openstack-cloud-credentials"
	)
	chosen := func(data map[string]string) runtime.Object { return userObject(userConfigMap, data) }
	binary := func(name, key, text string) runtime.Object {
		object := userObject(name, nil)
		object.BinaryData = map[string][]byte{key: []byte(text)}
		return object
	}
	login := func(data map[string]string) runtime.Object {
		return credentials(flavour.DefaultNamespace, data)
	}
	withCA := func(ca string) runtime.Object {
		return login(keys{openstack.CloudsKey: clouds("openstack"), openstack.CAKey: ca})
	}
	return map[string]mistake{
		"unparsable configuration": {
			chosen(keys{userConfigKey: userText + "a = \"" + password + "\n"}),
			[]string{"key config " + own, "line 3"},
		},
		"unknown topology": {
			chosen(keys{userTopologyKey: password}),
			[]string{"key enable_topology " + own, "neither true nor false"},
		},
		"configuration that is not text": {
			binary(userConfigMap, userConfigKey, "[BlockStorage]\n; "+password+"\xfc\n"),
			[]string{"key config " + own + " is binary data"},
		},
		"topology that is not text": {
			binary(userConfigMap, userTopologyKey, "false\xff"),
			[]string{"key enable_topology " + own + " is binary data"},
		},
		"malformed credentials": {
			login(keys{openstack.CloudsKey: "clouds: " + password}),
			[]string{"key clouds.yaml of " + secret},
		},
		"no credentials": {nil, []string{secret + " is missing"}},
		"CA that is no PEM": {
			withCA(password), []string{"key cacert of " + secret + " contains no PEM certificate"},
		},
		"ConfigMap's CA that is no PEM": {
			cloudProviderConfig(keys{bundleKey: password}),
			[]string{"key ca-bundle.pem of ConfigMap openshift-config/cloud-provider-config " +
				"contains no PEM certificate"},
		},
		"ConfigMap's CA that is not text": {
			binary("cloud-provider-config", bundleKey, "\xff"),
			[]string{"key ca-bundle.pem of ConfigMap openshift-config/cloud-provider-config is binary data"},
		},
		"entry that cloud.conf cannot express": {
			login(keys{openstack.CloudsKey: clouds(`"a\rb"`)}),
			[]string{"generating cloud.conf: writing cloud into cloud.conf: the value contains NUL"},
		},
		"too much of everything": {
			chosen(keys{userConfigKey: "[BlockStorage]\na = " + strings.Repeat("x", 1<<20)}),
			[]string{"ConfigMap cloud-conf would exceed 1 MiB: key config " + own +
				" has 1048595 bytes, the CA of the cloud has 0 bytes"},
		},
	}
}

// TestLastGoodStays checks that cloud-conf stays unchanged until the mistake is fixed.
func TestLastGoodStays(t *testing.T) {
	t.Parallel()
	for name, test := range mistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := credentials(flavour.DefaultNamespace, keys{openstack.CloudsKey: clouds("openstack")})
			b := newFixture(t, standalone())
			assert.NilError(t, b.sync(t))
			before := b.data(t, flavour.Guest)
			if test.object == nil {
				b.remove(t, good)
			} else {
				b.apply(t, test.object)
			}
			b.writes()
			got := b.sync(t)
			for _, want := range test.want {
				assert.ErrorContains(t, got, want)
			}
			assert.Check(t, !strings.Contains(got.Error(), password), "quotes what may be secret: %v", got)
			assert.Check(t, is.Len(b.writes(), 0))
			assert.Check(t, is.DeepEqual(before, b.data(t, flavour.Guest)), "cloud-conf")
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False SyncError"))
			b.apply(t, good, userObject(userConfigMap, nil), cloudProviderConfig(nil))
			assert.NilError(t, b.sync(t), "corrected")
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False AsExpected"))
		})
	}
}

// TestErrorsBeforeTheFirstAnswer checks that errors unrelated to the cloud are reported
// immediately.
func TestErrorsBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone(userObject(userConfigMap, keys{userConfigKey: "\n["})))
	b.cloud.fail("CloudUnreachable")
	assert.Check(t, is.ErrorContains(b.sync(t), "line 2"))
	assert.Check(t, b.data(t, flavour.Guest) == nil)
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
		b.putCredentials(t, keys{openstack.CloudsKey: clouds("openstack"), openstack.CAKey: ca})
		assert.NilError(t, b.sync(t))
		before := b.data(t, flavour.Guest)
		b.put(t, mistake)
		b.restart() // which forgets what cloud-conf must contain
		rotated := strings.ReplaceAll(clouds("openstack"), password, "another")
		b.putCredentials(t, keys{openstack.CloudsKey: rotated, openstack.CAKey: ca})
		assert.Check(t, b.sync(t) != nil, "the mistake in %s is not reported", name)
		assert.Check(t, b.config.loginWritten(), name)
		assert.Check(t, is.DeepEqual(before, b.data(t, flavour.Guest)), name)
		controller, _ := hashes(t, b)
		assert.Check(t, is.Len(controller, 2), "hashes of the new login and of cloud-conf, %s", name)
		for _, unfit := range []keys{
			{openstack.CloudsKey: clouds("openstack"), openstack.CAKey: authority("new")},
			{openstack.CloudsKey: clouds("other"), openstack.CAKey: ca},
		} {
			b.putCredentials(t, unfit)
			assert.Check(t, b.sync(t) != nil, "the mistake in %s is not reported", name)
			assert.Check(t, !b.config.written(), "login beside another cloud-conf, %s", name)
		}
	}
}
