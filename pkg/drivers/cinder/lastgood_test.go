package cinder

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// Each mistake would prevent the driver from starting, or would lose a setting.
func TestLastGoodStays(t *testing.T) {
	t.Parallel()
	const (
		own    = "of ConfigMap openshift-config/cinder-csi-config"
		theirs = "key ca-bundle.pem of ConfigMap openshift-config/cloud-provider-config "
		secret = "Secret openshift-cluster-csi-drivers/openstack-cloud-credentials"
	)
	chosen := func(data map[string]string) runtime.Object { return userObject(userConfigMap, data) }
	binary := func(name, key, text string) runtime.Object {
		object := userObject(name, nil)
		object.BinaryData = map[string][]byte{key: []byte(text)}
		return object
	}
	login := func(clouds, ca string) runtime.Object {
		data := keys{openstack.CloudsKey: clouds, openstack.CAKey: ca}
		return credentials(flavour.DefaultNamespace, data)
	}
	for want, object := range map[string]runtime.Object{
		"key config " + own + " cannot be used because of line 3": chosen(
			keys{userConfigKey: userText + "a = \"" + password + "\n"}),
		"key enable_topology " + own + " is neither true nor false": chosen(
			keys{userTopologyKey: password}),
		"key config " + own + " is binary data": binary(
			userConfigMap, userConfigKey, "[BlockStorage]\n; "+password+"\xfc\n"),
		"key enable_topology " + own + " is binary data": binary(
			userConfigMap, userTopologyKey, "false\xff"),
		"key clouds.yaml of " + secret: login("clouds: "+password, ""),
		secret + " is missing":         nil,
		"key cacert of " + secret + " contains no PEM certificate": login(
			clouds("openstack"), password),
		theirs + "contains no PEM certificate": cloudProviderConfig(keys{bundleKey: password}),
		theirs + "is binary data":              binary("cloud-provider-config", bundleKey, "\xff"),
		"generating cloud.conf: writing cloud into cloud.conf: the value contains NUL": login(
			clouds(`"a\rb"`), ""),
		"ConfigMap cloud-conf would exceed 1 MiB: key config " + own + " has 1048595 bytes, the CA of " +
			"the cloud has 0 bytes": chosen(
			keys{userConfigKey: "[BlockStorage]\na = " + strings.Repeat("x", 1<<20)}),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			good := login(clouds("openstack"), "")
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
		b.putCredentials(t, keys{openstack.CloudsKey: clouds("openstack"), openstack.CAKey: ca})
		assert.NilError(t, b.sync(t))
		before := b.data(flavour.Guest)
		b.put(t, mistake)
		b.restart() // which forgets what cloud-conf must contain
		rotated := strings.ReplaceAll(clouds("openstack"), password, "another")
		b.putCredentials(t, keys{openstack.CloudsKey: rotated, openstack.CAKey: ca})
		assert.Check(t, b.sync(t) != nil, "the mistake in %s is not reported", name)
		assert.Check(t, b.config.loginWritten(), name)
		assert.Check(t, is.DeepEqual(before, b.data(flavour.Guest)), name)
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
