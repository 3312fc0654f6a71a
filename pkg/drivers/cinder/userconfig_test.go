package cinder

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	validType     = "CinderUserConfigValid"
	reasonIgnored = "PartlyIgnored"
	// maxLines is the maximum number of lines in the condition.
	maxLines = 10
)

// TestSettingsWithoutEffectAreFound finds what has no effect in a text that the driver can read.
func TestSettingsWithoutEffectAreFound(t *testing.T) {
	t.Parallel()
	const (
		section = "this section is ignored: only [BlockStorage] is read. Correct its name or remove it"
		others  = "this section is ignored: only [BlockStorage] is read. The operator and the CSI " +
			"driver do not use it. Remove it"
		setting = "the CSI driver does not support this setting. It supports node-volume-attach-limit, " +
			"rescan-on-resize, ignore-volume-az and ignore-volume-microversion"
		limit   = "the CSI driver ignores a limit below 1 or above 256, and uses 256"
		outside = "this text is ignored: it precedes the first [section], and only [BlockStorage] " +
			"is read. Move or remove it"
		device = "trust-device-path is ignored: the CSI driver does not support it. Remove it"
	)
	for name, test := range map[string]struct {
		user string
		want []SyntaxError
	}{
		"nothing": {"", nil},
		"all settings": {"[BlockStorage]\nnode-volume-attach-limit = 25\n" +
			"rescan-on-resize\nIGNORE-volume-az = no\nignore-volume-microversion = true\n", nil},
		"limits": {"[BlockStorage]\nnode-volume-attach-limit = 1\nnode-volume-attach-limit = 256\n", nil},
		"misspelt section": {
			"; a comment\n[BlockStorge]\nrescan-on-resize = true\n",
			[]SyntaxError{{2, section}},
		},
		"another section": {"[Global]\npassword = " + password + "\n\n" +
			"[Metadata]\nsearch-order = configDrive\n", []SyntaxError{{1, others}, {4, others}}},
		"subsection": {
			"[BlockStorage \"" + password + "\"]\nrescan-on-resize = true\n",
			[]SyntaxError{{1, section}},
		},
		"misspelt setting": {
			"[BlockStorage]\nrescan-on-resize = true\nnode-volumes-attach-limit = 25\n",
			[]SyntaxError{{3, setting}},
		},
		"setting of in-tree": {
			"[BlockStorage]\nbs-version = " + password + "\n",
			[]SyntaxError{{2, setting}},
		},
		"trust-device-path": {
			"\ufeff[BlockStorage]\n\nTrust-Device-Path = true\n",
			[]SyntaxError{{3, device}},
		},
		"negative limit": {"[BlockStorage]\nnode-volume-attach-limit = -1\n", []SyntaxError{{2, limit}}},
		"no volumes":     {"[BlockStorage]\nnode-volume-attach-limit = 0\n", []SyntaxError{{2, limit}}},
		"too many volumes": {
			"[BlockStorage]\nnode-volume-attach-limit = \"257\"\n",
			[]SyntaxError{{2, limit}},
		},
		"an error instead": {
			"[BlockStorage]\nnode-volume-attach-limit = " + password + "\n[other]\n",
			[]SyntaxError{{3, section}},
		},
		"no cloud.conf": {"# x\nclouds:\n", []SyntaxError{{2, outside}}},
		"setting before a section": {
			password + " = x\n[BlockStorage]\nrescan-on-resize: on\n", []SyntaxError{{1, outside}},
		},
		"no header": {"[\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Check(t, is.DeepEqual(test.want, remarks([]byte(test.user))), "remarks")
		})
	}
}

// TestIgnoredSettingsAreReported checks that a condition without effect on CSO names the source and
// the fix, and clears after the fix.
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
		want           []string
	}{
		"topology and ignored zones": {nil, keys{userConfigKey: ignoresZones}, []string{
			"ignore-volume-az in key config of " + own + " contradicts topology",
		}},
		"ignored zones alone": {nil, keys{userConfigKey: ignoresZones, topologyKey: "0"}, nil},
		"zones without servers": {
			nil,
			choices("class: {availability: ceph}\nclasses: [{type: a, name: b, availability: c}]\n"),
			[]string{
				`key operator.yaml of ` + own + `: classes[0].type: "a" matches`,
				`key operator.yaml of ` + own + `: class.availability: "ceph" is no zone of servers`,
				`key operator.yaml of ` + own + `: classes[0].availability: "c" is no zone of servers`,
			},
		},
		"zones of servers": {nil, choices("class: {availability: az2}\n"), nil},
		"names that no label can hold": {nil, keys{userTopologyKey: "true"}, []string{
			"key enable_topology of " + own + " is true, but node labels cannot hold the names of " +
				`compute zones "zone 3"`,
		}},
		"a wrong key": {nil, keys{"cloud.conf": userText}, []string{"key cloud.conf of " + own +
			" is ignored: only keys config, enable_topology and operator.yaml are read. Rename or " +
			"remove it"}},
		"a misspelt key": {
			nil,
			keys{"enable-topology": "false", "cinder.conf": password},
			[]string{"key cinder.conf of " + own, "key enable-topology of " + own},
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
		"what the installer writes": {keys{"config": "[Global]\nsecret-name = x\n" +
			"[LoadBalancer]\n[BlockStorage]\nbs-version = v2\n", "other": ""}, nil, nil},
		"installer's topology": {keys{topologyKey: "true"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := standalone(userObject("cloud-provider-config", test.installed))
			seed.Config = objects{infrastructureWith("cloud-provider-config", "config")}
			b := newFixture(t, seed)
			zones := up("az1", "az2")
			if strings.HasPrefix(name, "names") {
				zones = up("az1", "zone 3")
			}
			b.cloud.lists(zones, zones)
			if test.own != nil {
				b.put(t, test.own)
			}
			assert.Check(t, b.sync(t), "what is ignored is an error")
			found := v1helpers.FindOperatorCondition(b.State.Conditions(t), validType)
			if test.want == nil {
				assert.Check(t, found.Status == opv1.ConditionTrue && found.Reason == reasonAsExpected,
					"%s is %+v", validType, found)
				return
			}
			lines := strings.Split(found.Message, "\n")
			if found.Status != opv1.ConditionFalse || found.Reason != reasonIgnored ||
				len(lines) != len(test.want) || strings.Contains(found.Message, password) {
				t.Fatalf("%s is %+v", validType, found)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("line %d is %q, want %q", i+1, lines[i], want)
				}
			}
			b.put(t, nil)
			assert.Check(t, b.sync(t))
			assert.Check(t, is.Equal(b.condition(t, validType), "True AsExpected"),
				"corrected, %s", validType)
		})
	}
}

// TestReportOfManyMistakesIsBounded checks that the condition is bounded, and that the operator
// writes it in addition to an error.
func TestReportOfManyMistakesIsBounded(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	data := keys{userConfigKey: "["}
	for i := range 5000 {
		data[fmt.Sprintf("key-%d", i)] = ""
	}
	b.put(t, data)
	if err := b.sync(t); err == nil {
		t.Error("a text that cannot be read is no error")
	}
	found := v1helpers.FindOperatorCondition(b.State.Conditions(t), validType)
	if lines := strings.Split(found.Message, "\n"); len(lines) != maxLines+1 ||
		lines[maxLines] != "and 4990 more" {
		t.Errorf("the message is %q", found.Message)
	}
}

// TestMessageNamesClusterOfIgnoredSettings checks that the message names the cluster of the
// ConfigMap.
func TestMessageNamesClusterOfIgnoredSettings(t *testing.T) {
	t.Parallel()
	b := newFixture(t, hyperShift())
	b.cloud.fail(openstack.NotOffered)
	b.put(t, keys{"cloud.conf": userText})
	assert.Check(t, b.sync(t))
	found := v1helpers.FindOperatorCondition(b.State.Conditions(t), validType)
	const own = "ConfigMap clusters-a/cinder-csi-config of the management cluster"
	if want := "key cloud.conf of " + own + " is ignored"; !strings.HasPrefix(found.Message, want) {
		t.Errorf("the message is %q, want %q", found.Message, want)
	}
	found = v1helpers.FindOperatorCondition(b.State.Conditions(t), progressingType)
	want := "set key enable_topology of " + own + " to true or false"
	if !strings.HasSuffix(found.Message, want) {
		t.Errorf("the message is %q, want %q", found.Message, want)
	}
}

func TestFaultsInChoicesAreReported(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.settle(t)
	header := "apiVersion: config.csi.openstack.org/v1alpha1\nkind: CinderConfig\n"
	b.put(t, map[string]string{
		"operator.yaml": header + "class: {shareClients: []}\n", "operator": "x",
	})
	b.settle(t)
	found := v1helpers.FindOperatorCondition(b.State.Conditions(t), validType)
	want := "key operator.yaml of ConfigMap openshift-config/cinder-csi-config, line 3: unknown " +
		`field "class.shareClients"` + "\n" +
		"key operator of ConfigMap openshift-config/cinder-csi-config is ignored: only keys config, " +
		"enable_topology and operator.yaml are read. Rename or remove it\n" +
		"Until this is corrected, the last valid configuration applies"
	if found.Status != opv1.ConditionFalse || found.Reason != "Invalid" || found.Message != want {
		t.Errorf("%s is %+v", validType, found)
	}
	b.put(t, map[string]string{"operator.yaml": header + "class: {reclaimPolicy: Retain}\n"})
	b.settle(t)
	assert.Check(t, is.Equal(b.condition(t, validType), "True AsExpected"), "corrected, %s", validType)
}
