package cinder

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/zones"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const validType = "CinderUserConfigValid"

func TestSettingsAreReadFromEachSource(t *testing.T) {
	t.Parallel()
	installed := userObject("kube-cloud", keys{
		"my.conf": "theirs", bundleKey: "CA", topologyKey: "false", "config": "not this",
	})
	reference := infrastructureWith("kube-cloud", "my.conf")
	const (
		ofOwn       = "key config of ConfigMap openshift-config/cinder-csi-config"
		ofInstalled = "key my.conf of ConfigMap openshift-config/kube-cloud"
	)
	for name, test := range map[string]struct {
		objects objects
		config  *configv1.Infrastructure
		want    []string // configuration, its source, CA and topology
	}{
		"installed": {objects{installed}, reference, []string{"theirs", ofInstalled, "CA", "false"}},
		"own before installed": {
			objects{installed, userObject(userConfigMap, keys{userConfigKey: "mine"})},
			reference,
			[]string{"mine", ofOwn, "CA", ""},
		},
		"own topology, installed": {
			objects{installed, userObject(userConfigMap, keys{userTopologyKey: "true"})},
			reference,
			[]string{"theirs", ofInstalled, "CA", "true"},
		},
		"installed, no such key": {
			objects{installed},
			infrastructureWith("kube-cloud", "other.conf"),
			[]string{"", ofOwn, "CA", "false"},
		},
		"installed with no config": {
			objects{installed}, infrastructureWith("", ""), []string{"", ofOwn, "", ""},
		},
		"CA, no Infrastructure": {
			objects{cloudProviderConfig(keys{bundleKey: "CA", topologyKey: "false"})},
			nil,
			[]string{"", ofOwn, "CA", ""},
		},
		"CA, another named": {
			objects{installed, cloudProviderConfig(keys{bundleKey: "the operator's"})},
			reference,
			[]string{"theirs", ofInstalled, "the operator's", "false"},
		},
	} {
		seed := clustertest.Seed{Guest: test.objects}
		if test.config != nil {
			seed.Config = objects{test.config}
		}
		user, err := newFixture(t, seed).config.sources.user()
		assert.NilError(t, err, name)
		got := []string{user.config.Value, user.config.Source, user.ca.Value, user.topology.Value}
		assert.Check(t, is.DeepEqual(test.want, got), name)
	}
}

func TestAdministratorChoosesTopology(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]*bool{
		"": nil, " \n": nil, " True\n": new(true), "tRuE": new(true), "1": new(true), "T": new(true),
		"false ": new(false), "0": new(false), "f": new(false), "maybe": nil, "truefalse": nil,
	} {
		chosen := cluster.Key{Value: value, Source: "key k of ConfigMap n/m"}
		topology, err := userConfig{topology: chosen}.override()
		assert.Check(t, is.DeepEqual(want, topology), "%q", value)
		if want != nil || strings.TrimSpace(value) == "" {
			assert.NilError(t, err, "%q", value)
			continue
		}
		assert.Check(t, is.ErrorContains(err, "key k of ConfigMap n/m is neither true nor false"))
		assert.Check(t, !strings.Contains(err.Error(), value), "quotes %q", value)
	}
}

func TestSettingsWithoutEffectAreFound(t *testing.T) {
	t.Parallel()
	const (
		section = "this section is ignored: only [BlockStorage] and [Metadata] are read. " +
			"Did you mean [BlockStorage]?"
		named = "this section is ignored: only [BlockStorage] and [Metadata] are read. " +
			"Write [BlockStorage], without a name in quotation marks"
		unknown = "this section is ignored: only [BlockStorage] and [Metadata] are read. " +
			"Correct its name or remove it"
		moved  = "rescan-on-resize is ignored in this section. Move it to [BlockStorage]"
		others = "this section is ignored: only [BlockStorage] and [Metadata] are read. The operator " +
			"and the CSI driver do not use it. Remove it"
		setting = "the CSI driver does not support this setting. It supports node-volume-attach-limit, " +
			"rescan-on-resize, ignore-volume-az, ignore-volume-microversion. Remove it"
		limit   = "the CSI driver ignores a node-volume-attach-limit below 1 or above 256, and uses 256"
		outside = "this text is ignored: it precedes the first [section], and only [BlockStorage] " +
			"and [Metadata] are read. Move or remove it"
		noConf = "this text is ignored: it is a clouds.yaml, not a cloud.conf: write " +
			"[BlockStorage] and, below it, settings such as rescan-on-resize = true"
		order = "this setting is ignored, because the CSI driver accepts only configDrive, " +
			"metadataService, or both with a comma between them. Correct it"
		only = "this setting is ignored: the operator passes on only search-order of this section. " +
			"Remove it"
		device = "trust-device-path is ignored: the CSI driver does not support it. Remove it"
	)
	for user, want := range map[string][]SyntaxError{
		"": nil, "[\n": nil,
		"[BlockStorage]\nnode-volume-attach-limit = 1\nnode-volume-attach-limit = 256\n" +
			"rescan-on-resize\nIGNORE-volume-az = no\nignore-volume-microversion = true\n": {{
			3, "node-volume-attach-limit repeats line 2, and only the last one counts. Remove one of the " +
				"two",
		}},
		"; a comment\n[BlockStorge]\nrescan-on-resize = true\n": {{2, section}, {3, moved}},
		"[Route]\na = " + password + "\n\n[Global]\n": {
			{1, others}, {4, others},
		},
		"[BlockStorage \"" + password + "\"]\nrescan-on-resize = true\n": {
			{1, named}, {2, moved},
		},
		"[BlockStorage]\nrescan-on-resize = true\nbs-version = " + password:      {{3, setting}},
		"\ufeff[BlockStorage]\n\nTrust-Device-Path = true\n":                     {{3, device}},
		"[BlockStorage]\nnode-volume-attach-limit = 0\n":                         {{2, limit}},
		"[BlockStorage]\nnode-volume-attach-limit = \"257\"\n":                   {{2, limit}},
		"[BlockStorage]\nnode-volume-attach-limit = " + password + "\n[other]\n": {{3, unknown}},
		"# x\nclouds:\n": {{2, noConf}},
		base64.StdEncoding.EncodeToString([]byte("clouds: {a: {auth: {}}}\n")): {{
			1, "this text is ignored: it is base64 of a clouds.yaml, not a cloud.conf: write the decoded " +
				"text, or use kubectl create configmap --from-file",
		}},
		"{\"BlockStorage\": {\"rescan-on-resize\": true}}\n": {{
			1, "this text is ignored: it is YAML or JSON, not a cloud.conf: write [BlockStorage] and, " +
				"below it, settings such as rescan-on-resize = true",
		}},
		"[METADATA]\nsearch-order = metadataService, configDrive\n":           nil,
		"[Metadata]\nsearch-order = " + password + "\nrequest-timeout = 5s\n": {{2, order}, {3, only}},
		password + " = x\n[BlockStorage]\nrescan-on-resize: on\n":             {{1, outside}},
	} {
		assert.Check(t, is.DeepEqual(want, remarks([]byte(user))), "%q", user)
	}
}

func TestIgnoredSettingsAreReported(t *testing.T) {
	t.Parallel()
	const (
		own       = "ConfigMap openshift-config/cinder-csi-config"
		installed = "ConfigMap openshift-config/cloud-provider-config"
	)
	ignoresZones := "[BlockStorage]\nignore-volume-az = yes\n"
	choices := func(text string) keys { return keys{"operator.yaml": cinderChoices + text} }
	for name, test := range map[string]struct {
		installed, own map[string]string
		want           []string // how the lines begin
	}{
		"topology and ignored zones": {nil, keys{userConfigKey: ignoresZones}, []string{
			"ignore-volume-az in key config of " + own + " contradicts topology",
		}},
		"ignored zones, with one": {nil, keys{userConfigKey: ignoresZones}, nil},
		"ignored zones alone":     {nil, keys{userConfigKey: ignoresZones, topologyKey: "0"}, nil},
		"zones without servers": {
			nil,
			choices("class: {availability: ceph}\nclasses: [{type: a, name: b, availability: c}]\n"),
			[]string{
				`key operator.yaml of ` + own + `: classes[0].type: "a" matches`,
				`key operator.yaml of ` + own + `: class.availability: "ceph" is no zone of servers, so ` +
					"with topology no node can use the volumes: use one of az1, az2, or set key enable_",
				`key operator.yaml of ` + own + `: classes[0].availability: "c" is no zone of servers`,
			},
		},
		"zones of servers": {nil, choices("class: {availability: az2}\n"), nil},
		"names that no label can hold": {nil, keys{userTopologyKey: "true"}, []string{
			"key enable_topology of " + own + " is true, but node labels cannot hold the names of " +
				`compute zones "zone 3"`,
		}},
		"misspelt keys": {
			nil,
			keys{"enable-topology": "false", "cinder.conf": password},
			[]string{"key cinder.conf of " + own + " is ignored: only keys config, enable_topology and " +
				"operator.yaml are read. Rename or remove it", "key enable-topology of " + own},
		},
		"in a text": {nil, keys{userConfigKey: "[BlockStorge]\n"}, []string{"key config of " + own +
			", line 1: this section is ignored"}},
		"what is hidden": {
			keys{topologyKey: "false"},
			keys{userConfigKey: userText},
			[]string{"key enable_topology of " + installed + " is ignored because " + own +
				" exists. Move the key there"},
		},
		"what is hidden, with a word": {keys{topologyKey: "false"}, keys{userTopologyKey: "true"}, nil},
		"what the installer writes": {keys{topologyKey: "true", "config": "[Global]\nsecret-name = x\n" +
			"[LoadBalancer]\n[BlockStorage]\nbs-version = v2\n", "other": ""}, nil, nil},
		"faults in choices": {
			nil,
			keys{"operator.yaml": cinderChoices + "class: {shareClients: []}\n", "operator": "x"},
			[]string{
				"key operator.yaml of " + own + `, line 3: unknown field "class.shareClients"`,
				"key operator of " + own + " is ignored",
				"The operator changes no StorageClass and no workload until this is corrected",
			},
		},
	} {
		seed := standalone(cloudProviderConfig(test.installed), userObject(userConfigMap, test.own))
		seed.Config = objects{infrastructureWith("cloud-provider-config", "config")}
		b := newFixture(t, seed)
		zones := up("az1", "az2")
		switch {
		case strings.HasPrefix(name, "names"):
			zones = up("az1", "zone 3")
		case strings.HasSuffix(name, "with one"):
			zones = up("az1")
		}
		b.cloud.lists(zones, zones)
		if test.own == nil {
			b.put(t, nil)
		}
		assert.NilError(t, b.sync(t), "what is ignored is an error, %s", name)
		message := b.State.Condition(t, validType).Message
		if test.want == nil {
			assert.Check(t, is.Equal(b.condition(t, validType), "True AsExpected"), message)
			continue
		}
		reason := map[bool]string{true: "Invalid", false: "PartlyIgnored"}[name == "faults in choices"]
		assert.Check(t, is.Equal(b.condition(t, validType), "False "+reason), name)
		lines := strings.Split(message, "\n")
		assert.Assert(t, is.Len(lines, len(test.want)), message)
		for i, want := range test.want {
			assert.Check(t, strings.HasPrefix(lines[i], want), lines[i])
		}
		assert.Check(t, !strings.Contains(message, password), message)
		b.put(t, nil)
		assert.NilError(t, b.sync(t), name)
		assert.Check(t, is.Equal(b.condition(t, validType), "True AsExpected"), "corrected, %s", name)
	}
}

// The schema of a CinderDriver has the limits of the driver.
func TestLimitsOfFieldsAreThoseOfTheDriver(t *testing.T) {
	t.Parallel()
	for f := range reflect.TypeFor[api.BlockStorage]().Fields() {
		low, high, limited := strings.Cut(f.Tag.Get("range"), "-")
		if !limited {
			continue
		}
		lowest, _ := strconv.Atoi(low)
		highest, _ := strconv.Atoi(high)
		for value, ignored := range map[int]bool{lowest: false, highest: false, highest + 1: true} {
			var d api.Driver
			reflect.ValueOf(&d.BlockStorage).Elem().FieldByIndex(f.Index).SetInt(int64(value))
			assert.Check(t, is.Equal(len(remarks([]byte(d.CloudConf()))) > 0, ignored), "%s = %d", f.Name,
				value)
		}
	}
}

// If no zone of volumes has servers, only topology can be corrected.
func TestAdviceAboutZonesWorksWhereTheyDiffer(t *testing.T) {
	t.Parallel()
	const off = "key enable_topology of ConfigMap openshift-config/cinder-csi-config to false"
	for want, setting := range map[string]keys{
		"so with topology no node can use the volumes: set ": {
			"operator.yaml": cinderChoices + "class: {availability: nova}\n",
		},
		"scheduled to zones without their volumes. Volumes cannot be in compute zones az1, az2: set ": {
			userConfigKey: "[BlockStorage]\nignore-volume-az = yes\n",
		},
	} {
		setting[userTopologyKey] = "true"
		b := newFixture(t, standalone(userObject(userConfigMap, setting)))
		b.cloud.lists(up("az1", "az2"), up("nova"))
		assert.NilError(t, b.sync(t))
		message := b.State.Condition(t, validType).Message
		assert.Check(t, strings.HasSuffix(message, want+off), message)
	}
}

// On Kubernetes messages name the object and its fields.
func TestMessagesNameFieldsOfTheObject(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{
		Flavour: flavour.Kubernetes, Spec: "{topology: Enabled, blockStorage: {ignoreVolumeAZ: true}}",
	})
	f.Object = "CinderDriver x"
	s := newSources(f.Cluster)
	f.Start(t)
	user, err := s.user()
	assert.NilError(t, err)
	conf := keys{topologyKey: "true", configKey: user.config.Value}
	got := s.contradictions(user, conf, zones.Lists{Compute: sets.New("az1", "az2")})
	assert.Check(t, is.DeepEqual(got, []string{
		"ignoreVolumeAZ in spec.blockStorage of CinderDriver x contradicts topology: pods are " +
			"scheduled to zones without their volumes. Remove it or, if servers can attach volumes of " +
			"every zone, set spec.topology of CinderDriver x to Disabled",
	}))
	assert.Check(t, is.Contains(fmt.Sprintf("%#v", s.services()[1]),
		"ignoreVolumeMicroversion: true into spec.blockStorage of CinderDriver x"))
}

func TestMessageNamesClusterOfIgnoredSettings(t *testing.T) {
	t.Parallel()
	b := newFixture(t, hyperShift())
	b.cloud.fail(openstack.NotOffered)
	b.put(t, keys{"cloud.conf": userText})
	assert.NilError(t, b.sync(t))
	const own = "ConfigMap clusters-a/cinder-csi-config of the management cluster"
	message := b.State.Condition(t, validType).Message
	assert.Check(t, strings.HasPrefix(message, "key cloud.conf of "+own+" is ignored"), message)
	message = b.State.Condition(t, progressingType).Message
	want := "set key enable_topology of " + own + " to true or false"
	assert.Check(t, strings.HasSuffix(message, want), message)
}
