package cinder

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

func TestSettingsAreReadFromEachSource(t *testing.T) {
	t.Parallel()
	const config, other = "[BlockStorage]\na = 1\n", "[BlockStorage]\na = 2\n"
	own := func(data map[string]string) runtime.Object { return userObject(userConfigMap, data) }
	installed := userObject("kube-cloud", keys{
		"my.conf": other, bundleKey: "CA", "config": "not this",
	})
	installedTopology := userObject("kube-cloud", keys{topologyKey: "false"})
	read := func(config, ca string) userConfig {
		return userConfig{config: text{value: config}, ca: text{value: ca}}
	}
	reference := infrastructureWith("kube-cloud", "my.conf")
	for name, test := range map[string]struct {
		objects      objects
		config       runtime.Object
		want         userConfig
		wantTopology string
	}{
		"nothing at all": {nil, nil, userConfig{}, ""},
		"config alone":   {objects{own(keys{userConfigKey: config})}, nil, read(config, ""), ""},
		"topology alone": {objects{own(keys{userTopologyKey: "false"})}, nil, userConfig{}, "false"},
		"both": {
			objects{own(keys{userConfigKey: config, userTopologyKey: "true"})},
			nil, read(config, ""), "true",
		},
		"neither":           {objects{own(keys{"foreign": config})}, nil, userConfig{}, ""},
		"as installed (56)": {objects{installed}, reference, read(other, "CA"), ""},
		"own before installed": {
			objects{installed, own(keys{userConfigKey: config})},
			reference, read(config, "CA"), "",
		},
		"own topology, installed": {
			objects{installed, own(keys{userTopologyKey: "true"})},
			reference, read(other, "CA"), "true",
		},
		"installed, no such key": {
			objects{installed},
			infrastructureWith("kube-cloud", "other.conf"), read("", "CA"), "",
		},
		"installed, key unnamed": {
			objects{installed},
			infrastructureWith("kube-cloud", ""), read("", "CA"), "",
		},
		"installed, no ConfigMap":  {nil, reference, userConfig{}, ""},
		"installed with no config": {objects{installed}, infrastructureWith("", ""), userConfig{}, ""},
		"installed topology":       {objects{installedTopology}, reference, userConfig{}, "false"},
		"installed topology, own": {
			objects{installedTopology, own(keys{userTopologyKey: "true"})},
			reference,
			userConfig{},
			"true",
		},
		"installed topology, hidden": {
			objects{installedTopology, own(keys{userConfigKey: config})},
			reference, read(config, ""), "",
		},
		"topology of none installed": {
			objects{cloudProviderConfig(keys{topologyKey: "false"})},
			reference,
			userConfig{},
			"",
		},
		"CA, no Infrastructure": {
			objects{cloudProviderConfig(keys{bundleKey: "CA"})},
			nil, read("", "CA"), "",
		},
		"CA, nothing named": {
			objects{cloudProviderConfig(keys{bundleKey: "CA"})},
			infrastructureWith("", ""), read("", "CA"), "",
		},
		"CA, another named": {
			objects{installed, cloudProviderConfig(keys{bundleKey: "the operator's"})},
			reference, read(other, "the operator's"), "",
		},
		"installed, other's object": {
			objects{manilasCopy()},
			infrastructureWith("cloud-provider-config", "config"),
			userConfig{},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := clustertest.Seed{Guest: test.objects}
			if test.config != nil {
				seed.Config = objects{test.config}
			}
			got, err := newFixture(t, seed).config.sources.user()
			assert.NilError(t, err)
			if got.topology.value != test.wantTopology || got.config.value != test.want.config.value ||
				got.ca.value != test.want.ca.value {
				t.Errorf("got %+v, want %+v with topology %q", got, test.want, test.wantTopology)
			}
		})
	}
}

// cloudProviderConfig is the ConfigMap with the CA that the operator trusts.
func cloudProviderConfig(data map[string]string) runtime.Object {
	return userObject("cloud-provider-config", data)
}

// manilasCopy returns the copy that cluster-storage-operator creates for Manila in the namespace of
// the operands.
func manilasCopy() *corev1.ConfigMap {
	return in(flavour.DefaultNamespace, userObject("cloud-provider-config",
		keys{"config": "[BlockStorage]\na = 3\n", bundleKey: "Manila's"}))
}

// TestMessagesNameConfigMapAndKey checks that messages name the ConfigMap and the key.
func TestMessagesNameConfigMapAndKey(t *testing.T) {
	t.Parallel()
	installed := standalone(userObject("kube-cloud", keys{"my.conf": "[BlockStorage]"}))
	installed.Config = objects{infrastructureWith("kube-cloud", "my.conf")}
	const (
		own        = "ConfigMap openshift-config/cinder-csi-config"
		management = "ConfigMap clusters-a/cinder-csi-config of the management cluster"
	)
	for name, test := range map[string]struct {
		seed             clustertest.Seed
		data             map[string]string
		config, topology string
	}{
		"as installed": {
			installed, nil, "key my.conf of ConfigMap openshift-config/kube-cloud",
			"key enable_topology of " + own,
		},
		"own": {
			installed,
			keys{userConfigKey: "[BlockStorage]"},
			"key config of " + own,
			"key enable_topology of " + own,
		},
		"none": {standalone(), nil, "key config of " + own, "key enable_topology of " + own},
		"HyperShift": {
			hyperShift(),
			keys{userConfigKey: "x"},
			"key config of " + management,
			"key enable_topology of " + management,
		},
		"HyperShift none": {
			hyperShift(), nil, "key config of " + management,
			"key enable_topology of " + management,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, test.seed)
			if test.data != nil {
				b.put(t, test.data)
			}
			user, err := b.config.sources.user()
			assert.NilError(t, err)
			want := [2]string{test.config, test.topology}
			got := [2]string{user.config.source, user.topology.source}
			assert.Check(t, is.DeepEqual(want, got), "sources")
		})
	}
}

func TestAdministratorChoosesTopology(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]struct {
		topology *bool
		wrong    bool
	}{
		"":          {},
		" \n":       {},
		"true":      {topology: new(true)},
		"True":      {topology: new(true)},
		" true\n":   {topology: new(true)},
		"false":     {topology: new(false)},
		"false ":    {topology: new(false)},
		"FALSE":     {topology: new(false)},
		"tRuE":      {topology: new(true)},
		"1":         {topology: new(true)},
		" T\n":      {topology: new(true)},
		"t":         {topology: new(true)},
		"0":         {topology: new(false)},
		"f":         {topology: new(false)},
		"F":         {topology: new(false)},
		"maybe":     {wrong: true},
		"yes":       {wrong: true},
		"2":         {wrong: true},
		"truefalse": {wrong: true},
	} {
		topology, err := userConfig{
			topology: text{value: value, source: "key k of ConfigMap n/m"},
		}.override()
		assert.Check(t, ptr.Equal(topology, want.topology) && (err != nil) == want.wrong,
			"%q: got %v, %v, want %v", value, topology, err, want.topology)
		if err != nil && (!strings.HasPrefix(err.Error(), "key k of ConfigMap n/m ") ||
			strings.Contains(err.Error(), value) && value != "2") {
			t.Errorf("%q: the error is to name the source and not the value: %v", value, err)
		}
	}
}
