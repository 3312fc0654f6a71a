package cinder

import (
	"maps"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// mistake is a mistake of an administrator, and the texts that the error must contain.
type mistake struct {
	// own and binary are the data of the ConfigMap for this driver, cloud the data of the ConfigMap
	// with the CA of the cloud. nil changes nothing.
	own    map[string]string
	binary map[string][]byte
	cloud  map[string]string
	// secret has the credentials; gone removes them.
	secret map[string]string
	gone   bool
	want   []string
}

func (m mistake) make(t *testing.T, b *fixture) {
	t.Helper()
	if m.own != nil {
		b.put(t, m.own)
	}
	if m.binary != nil {
		b.putBinary(t, m.binary)
	}
	if m.cloud != nil {
		b.putConfigMap(t, b.Namespaces.CloudConfig, m.cloud)
	}
	if m.secret != nil || m.gone {
		b.putCredentials(t, m.secret)
	}
}

func (m mistake) correct(t *testing.T, b *fixture) {
	t.Helper()
	if m.own != nil || m.binary != nil {
		b.put(t, keys{userConfigKey: ""})
	}
	if m.cloud != nil {
		b.putConfigMap(t, b.Namespaces.CloudConfig, nil)
	}
	good := keys{openstack.CloudsKey: clouds("openstack")}
	if m.gone {
		assert.NilError(t, b.Guest.Tracker().Add(credentials(flavour.DefaultNamespace, good)))
	}
	if m.secret != nil || m.gone {
		b.putCredentials(t, good)
	}
}

// mistakes returns mistakes that would prevent the driver from starting, or would lose a setting.
func mistakes() map[string]mistake {
	const (
		own    = "of ConfigMap openshift-config/cinder-csi-config"
		secret = "Secret openshift-cluster-csi-drivers/openstack-cloud-credentials"
	)
	withCA := func(ca string) map[string]string {
		return keys{openstack.CloudsKey: clouds("openstack"), openstack.CAKey: ca}
	}
	return map[string]mistake{
		"unparsable configuration": {
			own:  keys{userConfigKey: userText + "a = \"" + password + "\n"},
			want: []string{"key config " + own, "line 3"},
		},
		"unknown topology": {
			own:  keys{userTopologyKey: password},
			want: []string{"key enable_topology " + own, "neither true nor false"},
		},
		"configuration that is not text": {
			binary: map[string][]byte{userConfigKey: []byte("[BlockStorage]\n; " + password + "\xfc\n")},
			want:   []string{"key config " + own + " is binary data"},
		},
		"topology that is not text": {
			binary: map[string][]byte{userTopologyKey: []byte("false\xff")},
			want:   []string{"key enable_topology " + own + " is binary data"},
		},
		"malformed credentials": {
			secret: keys{openstack.CloudsKey: "clouds: " + password},
			want:   []string{"key clouds.yaml of " + secret},
		},
		"credentials without the key": {
			secret: keys{"x": password},
			want:   []string{secret + " has no key clouds.yaml"},
		},
		"no credentials": {gone: true, want: []string{secret + " is missing"}},
		"CA that is no PEM": {
			secret: withCA(password),
			want:   []string{"key cacert of " + secret + " contains no PEM certificate"},
		},
		"CA with a broken certificate": {
			secret: withCA(authority(password) + strings.Replace(testCA, "\nMII", "\nAAA", 1)),
			want: []string{"key cacert of " + secret + " contains no PEM certificate, " +
				"or one that cannot be parsed"},
		},
		"ConfigMap's CA that is no PEM": {
			cloud: keys{bundleKey: password},
			want: []string{"key ca-bundle.pem of ConfigMap openshift-config/cloud-provider-config " +
				"contains no PEM certificate"},
		},
		"too much of everything": {
			own: keys{userConfigKey: "[BlockStorage]\n" +
				strings.Repeat("rescan-on-resize = true\n", 25_000)},
			secret: withCA(strings.Repeat(authority(password), 1000)),
			want: []string{
				"ConfigMap cloud-conf would exceed 1 MiB",
				"key config " + own + " has 600015 bytes",
				"the CA of the cloud has ",
			},
		},
	}
}

// TestLastGoodStays checks that cloud-conf stays unchanged until the mistake is fixed.
func TestLastGoodStays(t *testing.T) {
	t.Parallel()
	for name, test := range mistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, standalone())
			assert.NilError(t, b.sync(t))
			before := b.data(t, flavour.Guest)
			test.make(t, b)
			b.writes()
			got := b.sync(t)
			assert.Assert(t, got != nil, "no error")
			for _, want := range test.want {
				assert.Check(t, strings.Contains(got.Error(), want), "the error lacks %q: %v", want, got)
			}
			assert.Check(t, !strings.Contains(got.Error(), password),
				"the error quotes what may be secret: %v", got)
			if writes := b.writes(); len(writes) > 0 || !maps.Equal(before, b.data(t, flavour.Guest)) {
				t.Errorf("the last good configuration did not stay: %v", writes)
			}
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False SyncError"), progressingType)
			test.correct(t, b)
			assert.Check(t, b.sync(t), "corrected")
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False AsExpected"),
				"corrected, %s", progressingType)
		})
	}
}

// A mistake of the administrator does not keep a new password from the driver.
func TestLoginIsWrittenBesideAMistake(t *testing.T) {
	t.Parallel()
	for name, mistake := range map[string]keys{
		"configuration": {userConfigKey: "\n["}, "topology": {userTopologyKey: "maybe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, standalone())
			assert.NilError(t, b.sync(t))
			before := b.data(t, flavour.Guest)
			b.put(t, mistake)
			b.restart() // which forgets what cloud-conf must contain
			rotated := strings.ReplaceAll(clouds("openstack"), password, "another")
			b.putCredentials(t, keys{openstack.CloudsKey: rotated})
			if err := b.sync(t); err == nil {
				t.Error("the mistake is not reported")
			}
			b.await(t, "the login", b.config.loginWritten)
			assert.Check(t, is.DeepEqual(before, b.data(t, flavour.Guest)), "cloud-conf")
			if controller, _ := hashes(t, b); len(controller) != 2 {
				t.Errorf("hashes are %v, want those of the new login and of cloud-conf", controller)
			}
		})
	}
}
