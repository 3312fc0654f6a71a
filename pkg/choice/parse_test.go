package choice_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/budget"
)

const header = "apiVersion: config.csi.openstack.org/v1alpha1\nkind: ManilaConfig\n"

// complete sets each field.
const complete = header + `
driver: Never
types:
  include: [gold, fast-*]
  exclude: ['*-test']
defaultClass: csi-manila-gold
class:
  reclaimPolicy: Retain
  volumeBindingMode: WaitForFirstConsumer
  mountOptions: [nfsvers=4.1, noatime]
  labels: {example.com/tier: gold}
  annotations: {example.com/owner: "storage team"}
  availability: az1
  shareNetworkID: 0d1f9d31-3a80-4bd6-9f6c-1e0b1a3c7f11
  shareClients: [10.0.0.0/16, fd00::/64]
  shareMetadata: {team: storage}
classes:
- type: gold
  reclaimPolicy: Delete
- type: gold
  name: gold-for-nodes
  shareClients: [10.0.1.0/24]
sidecars: {releaseLeases: Always, claimMetadata: true, timeout: 4m, workers: 20}
csiDriver: {fsGroupPolicy: File, seLinuxMount: false, volumeLifecycleModes: [Persistent, Ephemeral]}
claimAnnotations: true
csiAddons: {image: registry.example.com/csi-addons, apiServerTokens: true, maxAccessRules: 128}
kubeletDir: /var/snap/microk8s/common/var/lib/kubelet
pods:
  node:
    labels: {example.com/team: storage}
    annotations: {example.com/scrape: "true"}
    nodeSelector: {kubernetes.io/os: linux, example.com/openstack: ""}
    tolerations:
    - {operator: Exists, effect: NoExecute, tolerationSeconds: 60}
    - {key: example.com/storage, value: x}
    priorityClassName: storage
    imagePullSecrets: [{name: registry}]
    hostAliases: [{ip: 192.0.2.1, hostnames: [keystone]}]
    resources: {csi-driver: {requests: {cpu: 1, memory: 64Mi}, limits: {cpu: "1.5"}}}
  controller:
    replicas: 3
    affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
      {matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
`

// remove is about an unknown field at the top.
const remove = choice.NoSuchField + "apiVersion, kind, driver, types, defaultClass, " +
	"class, classes, topology, exportLocations, kubeletDir, csiDriver, " +
	"pods, claimAnnotations, sidecars, csiAddons"

// faultsOf returns the faults in a text. The API server refuses an object with the same content.
func faultsOf(t *testing.T, kind choice.Kind, text string) string {
	t.Helper()
	_, faults := choice.Parse(kind, text, flavour.Kubernetes)
	checkRefused(t, kind, text, faults)
	var lines []string
	for _, fault := range faults {
		lines = append(lines, fmt.Sprintf("%d: %s", fault.Line, fault.Problem))
	}
	return strings.Join(lines, "\n")
}

func TestEveryFieldIsAccepted(t *testing.T) {
	t.Parallel()
	config, faults := choice.Parse(choice.Manila, complete, flavour.Kubernetes)
	assert.Assert(t, len(faults) == 0, "got %v", faults)
	assert.Check(t, config.Types.Include[1] == "fast-*" &&
		config.Classes[1].ShareClients[0] == "10.0.1.0/24", "got %+v", config)
}

func TestAllFaultsAreReportedWithLineAndField(t *testing.T) {
	t.Parallel()
	text := header + `driver: Sometimes
type: {}
class:
  reclaimpolicy: Retain
  mountOptions: nfsvers=4.1
  labels: {a: 1}
  availability:
classes:
- name: x
  shareClients:
  - 10.0.0.0/16
  - [10.0.0.0/16]
- 5
sidecars: {releaseLeases: "true"}
csiAddons: {maxAccessRules: 0}
clases: []
forceCreate: true
reclaimPolicy: Retain
`
	want := `3: driver: Unsupported value: "Sometimes": supported values: "Auto", "Never"
4: unknown field "type": did you mean "types"?
6: unknown field "class.reclaimpolicy": did you mean "reclaimPolicy"?
7: class.mountOptions: must be a list, as in [a, b], not a text
8: class.labels[a]: Invalid value: "1": must be a text: quote it
9: class.availability: the value is empty: set it, or remove the field
11: classes[0].type: Required value
14: classes[0].shareClients[1]: must be a text, not a list
15: classes[1]: must be a map of fields (type, name, reclaimPolicy, ` +
		`volumeBindingMode, mountOptions, labels, annotations, availability, shareNetworkID, ` +
		`shareClients, shareMetadata), ` +
		`not a number
16: sidecars.releaseLeases: Unsupported value: "true": supported values: "Auto", "Always", "Never"
17: csiAddons.image: Required value
17: csiAddons.maxAccessRules: must be a number from 1 to 1000 without quotation marks, and is "0"
18: unknown field "clases": did you mean "classes"?
19: unknown field "forceCreate"` + remove + `
20: unknown field "reclaimPolicy": write it below class or classes`
	assert.Check(t, is.DeepEqual(want, faultsOf(t, choice.Manila, text)))
}

// What the wrong shape of a field hides is not reported as missing.
func TestInvalidValuesAreReportedBesideAWrongShape(t *testing.T) {
	t.Parallel()
	const text = header + "types: 5\ndefaultClass: Gold\ncsiAddons: {imag: a}\n"
	lines := strings.Split(faultsOf(t, choice.Manila, text), "\n")
	assert.Check(t, len(lines) == 4 && lines[0] == "3: types: must be a map of fields (include, "+
		"exclude), not a number" &&
		strings.HasPrefix(lines[1], "4: defaultClass: Invalid value") &&
		strings.HasPrefix(lines[2], "5: csiAddons.image: Required"), "%q", lines)
}

func TestAllInvalidValuesAreReportedWithLineAndField(t *testing.T) {
	t.Parallel()
	text := `apiVersion: config.csi.openstack.org/v1
kind: CinderConfig
defaultClass: Gold
types:
  include: ['[']
class:
  labels: {'-': x}
  annotations:
    storageclass.kubernetes.io/is-default-class: "true"
  mountOptions: [a b]
  shareNetworkID: private
  shareMetadata: {"": x}
classes:
- type: gold
  shareClients:
  - 10.0.0.0/16
  - 10.0.0.0/33
  - 10.0.0.1/16
- type: gold
- {type: x, name: csi-manila-x}
- {type: gold, name: x}
- {type: gold, name: x}
`
	want := `1: apiVersion: Unsupported value: "config.csi.openstack.org/v1": supported values: ` +
		`"config.csi.openstack.org/v1alpha1"
2: kind: Unsupported value: "CinderConfig": supported values: "ManilaConfig"
3: defaultClass: Invalid value: "Gold": `
	got := faultsOf(t, choice.Manila, text)
	assert.Check(t, strings.HasPrefix(got, want), "got %s\nwant %s", got, want)
	var lines []string
	for line := range strings.SplitSeq(got, "\n") {
		number, rest, _ := strings.Cut(line, ": ")
		at, _, _ := strings.Cut(rest, ": ")
		lines = append(lines, number+" "+at)
	}
	assert.Check(t, is.DeepEqual([]string{
		"1 apiVersion", "2 kind", "3 defaultClass", "5 types.include[0]", "7 class.labels",
		"9 class.annotations[storageclass.kubernetes.io/is-default-class]", "10 class.mountOptions[0]",
		"11 class.shareNetworkID", "12 class.shareMetadata[]", "17 classes[0].shareClients[1]",
		"18 classes[0].shareClients[2]", "19 classes[1].type", "20 classes[2].name",
		"22 classes[4].name",
	}, lines))
}

func TestTextsThatAreNoChoicesAreRejected(t *testing.T) {
	t.Parallel()
	const template = ": the text is a template that is not filled in, not a ManilaConfig: " +
		"render it first, and write its result. A text that begins with { needs quotation marks"
	const other = ", not a ManilaConfig: write apiVersion: config.csi.openstack.org/v1alpha1, kind: " +
		"ManilaConfig, and the fields below them"
	for name, test := range map[string]struct{ text, want string }{
		"empty":   {"", "1: the text is empty: remove the key, or set apiVersion and kind"},
		"comment": {"# x", "1: the text is empty: remove the key, or set apiVersion and kind"},
		"list":    {"[]", "1: the text is a list" + other},
		"text":    {"x", "1: the text is a text" + other},
		"nothing": {"null", "1: the text is the word null" + other},
		"no version": {
			"{}", "1: apiVersion: Required value: write config.csi.openstack.org/v1alpha1\n" +
				"1: kind: Required value: write ManilaConfig",
		},
		"second document": {header + "---\n{}\n", "3: a second YAML document: each file contains one"},
		"duplicate field": {
			header + "kind: ManilaConfig\n", `3: the key "kind" repeats line 2: remove one of the two`,
		},
		"template": {
			header + "class: {{ .Values.class }}\n", "3" + template,
		},
		"template with logic": {
			header + "{{ if x }}\nclass: {}\n", "3" + template,
		},
		"tab": {
			header + "class:\n\tlabels: {}\n",
			"4: the text is not valid YAML at labels. It is indented with a tab: use spaces",
		},
		"control character": {
			header + "x: \x01\n", "3: the text is not valid YAML. It contains a control " +
				"character: remove it, or write it in double quotation marks, as in \"\\x07\"\n3: the line " +
				"contains U+0001 (a control character) in column 4: replace it, or remove it",
		},
		"an item": {
			header + "types:\n  # fast\n  include:\n  - *ssd\n", "6: the text is not valid YAML below " +
				"types.include. A value that begins with * refers to an anchor (&), and none of this name " +
				"precedes it. Repeat the text, or write quotation marks around it",
		},
		"ConfigMap": {
			"apiVersion: v1\nkind: ConfigMap\ndata: {}\n",
			"2: the text is a manifest of kind ConfigMap, not a ManilaConfig: write only the " +
				"text that its key contains",
		},
		"base64": {
			base64.StdEncoding.EncodeToString([]byte(header)), "1: the text is base64 of an " +
				"operator.yaml, not a ManilaConfig: write the decoded text, or use kubectl create " +
				"configmap --from-file",
		},
		"another manifest": {
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nparameters: {}\n", "2: the text is a " +
				"manifest of kind StorageClass" + other,
		},
		"data of a ConfigMap": {
			"operator.yaml: |\n  " + header,
			"1: the text is a text with the key operator.yaml, not a ManilaConfig: write only " +
				"what is below it",
		},
		"an address": {
			header + "class: {shareClients: ['fd00::1']}\n",
			`3: class.shareClients[0]: Invalid value: "fd00::1": use the network fd00::1/128`,
		},
		"Markdown": {
			"```yaml\n" + header, "1: the text is an operator.yaml with Markdown around " +
				"it: write only lines 2 to 3",
		},
		"image": {
			header + "csiAddons: {image: 'registry.example.com/a,b'}\n",
			`3: csiAddons.image: Invalid value: "registry.example.com/a,b": use the name of an image, ` +
				"such as registry.example.com/csi-addons:v1",
		},
		"hidden text": {
			header + "class: {labels: {\"\\u202ex\": 5}}\n",
			`3: class.labels[?x]: Invalid value: "5": must be a text: quote it`,
		},
		"size": {header + strings.Repeat("#", 64<<10), "1: the text is larger than 64 KiB"},
		"alias": {
			header + "class: &x {}\ntypes: *x\n",
			"4: types: an alias is not supported: repeat the value",
		},
		"field of another": {
			header + "enable_topology: true\n", `3: unknown field "enable_topology"` + remove,
		},
	} {
		assert.Check(t, is.DeepEqual(test.want, faultsOf(t, choice.Manila, test.text)), name)
	}
}

func TestNamesOfTheOperatorAreReserved(t *testing.T) {
	t.Parallel()
	text := strings.Replace(header, "Manila", "Cinder", 1) + `classes:
- {type: Fast_1, name: csi-cinder-fast-1}
- {type: gold, name: standard-csi}
- {type: gold, name: csi-manila-gold}
- {type: gold, name: csi-cinder-sc-retain}
- {name: csi-cinder-sc-delete}
- {reclaimPolicy: Retain}
`
	want := `4: classes[0].name: Invalid value: "csi-cinder-fast-1": remove the name: the operator ` +
		`gives it to the StorageClass of the type itself
4: classes[5].type: Invalid value: "": use the name of a type
5: classes[1].name: Invalid value: "standard-csi": use another name: this one is that of the ` +
		`StorageClass without a type`
	assert.Check(t, is.DeepEqual(want, faultsOf(t, choice.Cinder, text)))
}

func TestFieldsOfManilaAreUnknownForCinder(t *testing.T) {
	t.Parallel()
	text := strings.Replace(header, "Manila", "Cinder", 1) +
		"driver: Auto\nclass: {reclaimPolicy: Retain, shareClients: []}\n"
	want := `3: unknown field "driver": only a ManilaDriver has it
4: unknown field "class.shareClients": only a ManilaDriver has it`
	assert.Check(t, is.DeepEqual(want, faultsOf(t, choice.Cinder, text)))
}

func TestInvalidOptionsOfNodesAreReportedWithLineAndFix(t *testing.T) {
	t.Parallel()
	const useFolder = "use an absolute path such as /var/lib/k0s/kubelet, without a slash at its " +
		"end, of letters, digits, '.', '_' and '-'"
	for text, want := range map[string]string{
		"kubeletDir: /" + strings.Repeat("k", 52): "3: kubeletDir: Too long: must have at most 52 " +
			"characters",
		"kubeletDir: kubelet":  `3: kubeletDir: Invalid value: "kubelet": ` + useFolder,
		"kubeletDir: /":        `3: kubeletDir: Invalid value: "/": ` + useFolder,
		"kubeletDir: /k/":      `3: kubeletDir: Invalid value: "/k/": ` + useFolder,
		"kubeletDir: /k/../l":  `3: kubeletDir: Invalid value: "/k/../l": ` + useFolder,
		"kubeletDir: '/$(sh)'": `3: kubeletDir: Invalid value: "/$(sh)": ` + useFolder,
		"kubeletDir: '/k:ro'":  `3: kubeletDir: Invalid value: "/k:ro": ` + useFolder,
		"nodeSelector: {a: x}": `3: unknown field "nodeSelector": write it as pods.node.nodeSelector`,
		"pods:\n  node:\n    nodeSelector:\n      kubernetes.io/os: windows": "6: pods.node." +
			`nodeSelector[kubernetes.io/os]: Invalid value: "windows": remove the label: drivers run on ` +
			"Linux only",
		"pods: {node: {image: x}}": `3: unknown field "pods.node.image": `,
		"pods: {node: {replicas: 2}}": `3: unknown field "pods.node.replicas": write it as ` +
			"pods.controller.replicas",
		"pods: {nodeSelector: {a: x}}": `3: unknown field "pods.nodeSelector": write it below node ` +
			"or controller",
		"pods: {node: {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
			"[{weight: 1, podAffinityTerm: {topologyKey: a}, matchLabels: {a: b}}]}}}}": "3: unknown " +
			`field "pods.node.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution` +
			`[0].matchLabels": write it below podAffinityTerm`,
		"topologyKey: a":          `3: unknown field "topologyKey": write it below pods`,
		"pods: {timeout: 4m}":     `3: unknown field "pods.timeout": write it as sidecars.timeout`,
		"sidecars: {operator: a}": `3: unknown field "sidecars.operator": remove it`,
		"pods: {controller: {replicas: 0}}": "3: pods.controller.replicas: must be a number from 1 to " +
			`100 without quotation marks, and is "0"`,
		"pods:\n  node:\n    tolerations:\n    - operater: Exists": "6: unknown field " +
			`"pods.node.tolerations[0].operater": did you mean "operator"?`,
		"pods: {node: {tolerations: [{tolerationSeconds: 1.5}]}}": "3: pods.node.tolerations[0]." +
			`tolerationSeconds: must be a number without quotation marks, and is "1.5"`,
		"pods: {node: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
			"{}}}}}": "" +
			"3: pods.node.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution." +
			"nodeSelectorTerms: Required value",
		"pods: {node: {resources: {csi-driver: {requests: {memory: 64Mb}}}}}": "3: pods.node." +
			`resources[csi-driver].requests[memory]: must be a quantity such as 100m, 64Mi or ` +
			`"0.5", and is 64Mb`,
		"pods: {node: {resources: {csi-driver: {requests: {memory: 128m}}}}}": "3: pods.node." +
			"resources[csi-driver].requests[memory]: 128m: use a unit such as Mi, not m",
		"pods: {node: {resources: {csi-driver: {limits: {hugepages-2Mi: 5n}}}}}": "3: pods.node." +
			"resources[csi-driver].limits[hugepages-2Mi]: 5n: use a unit such as Mi, not m",
		"pods: {node: {resources: {csi-driver: {limits: {cpu: 0.5}}}}}": "3: pods.node.resources" +
			`[csi-driver].limits[cpu]: write "0.5" in quotation marks`,
		"pods: {node: {resources: {csi-driver: {limits: [cpu]}}}}": "3: pods.node.resources" +
			"[csi-driver].limits: must be a map of texts, as in {name: value}, not a list",
		"pods: {node: {labels: {app.kubernetes.io/name: x}}}": "3: pods.node.labels[app.kubernetes.io/" +
			"name]: Forbidden: use another key: those of Kubernetes and of the operator are reserved",
		"pods: {controller: {annotations: {openshift.io/required-scc: privileged}}}": "3: pods." +
			"controller.annotations[openshift.io/required-scc]: Forbidden: use another key",
	} {
		got := faultsOf(t, choice.Manila, header+text)
		assert.Check(t, strings.HasPrefix(got, want), "%s:\ngot  %s\nwant %s", text, got, want)
	}
	for f, want := range map[flavour.Flavour][]choice.Fault{
		flavour.Standalone: {
			{3, "kubeletDir: Forbidden: remove the field: the folder is fixed on OpenShift"},
		},
		flavour.HyperShift: {
			{3, "kubeletDir: Forbidden: remove the field: the folder is fixed on OpenShift"},
			{4, "pods.controller: Forbidden: remove the field: on HyperShift these pods are configured " +
				"by the HostedControlPlane"},
		},
	} {
		_, faults := choice.Parse(choice.Cinder, strings.Replace(header, "Manila", "Cinder", 1)+
			"kubeletDir: /var/lib/kubelet\npods: {controller: {replicas: 2}}\n", f)
		assert.Check(t, is.DeepEqual(want, faults))
	}
}

func TestWithoutChoicesNothingChanges(t *testing.T) {
	t.Parallel()
	var none *choice.Config
	class := &storagev1.StorageClass{}
	none.ClassOf("gold").Apply(class)
	none.MarkDefault(class)
	assert.Check(t, is.DeepEqual(&storagev1.StorageClass{}, class))
	assert.Check(t, none.Installs() && none.Selects(choice.Manila, "gold") &&
		!none.Selects(choice.Cinder, "gold") && !none.NeedsVolumeTypes() && none.More() == nil &&
		!none.OwnsDefault(), "nil is not the default")
}

func TestPatternsSelectTypes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selection       choice.Selection
		shares, volumes string
	}{
		"none":     {choice.Selection{Include: []string{}}, "", ""},
		"all":      {choice.Selection{}, "gold gold-test silver", ""},
		"some":     {choice.Selection{Include: []string{"gold*"}}, "gold gold-test", "gold gold-test"},
		"excluded": {choice.Selection{Exclude: []string{"*-test"}}, "gold silver", ""},
		"both": {
			choice.Selection{Include: []string{"gold*"}, Exclude: []string{"*t"}}, "gold", "gold",
		},
	} {
		config := &choice.Config{Types: test.selection}
		for kind, want := range map[choice.Kind]string{
			choice.Manila: test.shares, choice.Cinder: test.volumes,
		} {
			got := slices.DeleteFunc([]string{"gold", "gold-test", "silver"},
				func(name string) bool { return !config.Selects(kind, name) })
			assert.Check(t, is.Equal(strings.Join(got, " "), want), "%s: %s", name, kind)
		}
	}
}

func TestValuesOfATypeHavePrecedence(t *testing.T) {
	t.Parallel()
	config := &choice.Config{
		DefaultClass: "gold",
		Class: choice.Class{
			ReclaimPolicy: "Retain", MountOptions: []string{"a"}, Availability: "az1",
			Labels: map[string]string{"all": "x", "both": "x"},
		},
		Classes: []choice.NamedClass{{Type: "gold", Class: choice.Class{
			ReclaimPolicy: "Delete", MountOptions: []string{"b"},
			Labels: map[string]string{"both": "y"},
		}}},
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold", Annotations: map[string]string{"mine": "x"}},
		Parameters: map[string]string{"type": "gold"},
	}
	config.ClassOf("gold").Apply(class)
	config.MarkDefault(class)
	want := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "gold", Labels: map[string]string{"all": "x", "both": "y"},
			Annotations: map[string]string{
				"mine": "x", "storageclass.kubernetes.io/is-default-class": "true",
			},
		},
		Parameters:    map[string]string{"type": "gold", "availability": "az1"},
		ReclaimPolicy: new(corev1.PersistentVolumeReclaimDelete),
		MountOptions:  []string{"b"},
	}
	assert.Check(t, is.DeepEqual(want, class))
	assert.Check(t, is.DeepEqual("x", config.Class.Labels["both"]), "the choices changed")
}

// FuzzParse proves that a text is either valid choices, or has printable faults in its lines, that
// valid choices change only what they are about, and that no text costs much.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		complete, header, "", "[]", "a: &a [*a]", "\xff", "\t", "%", "---\n---\n",
		"{apiVersion: 1, kind: [], class: {labels: {? [] : x}}}",
		header + "classes: [{type: \"\\0\", name: x}, {type: ~}, 5]\n",
		header + "class: {<<: {labels: 5}}\n",
		header + "class: {mountOptions: [.nan, 1e999, 2026-01-01, !!binary eA==]}\n",
	} {
		f.Add(text)
	}
	const size = 64 << 10
	for _, part := range []string{"- [a]\n", "- '['\n", "- type: a\n", "- {}\n"} {
		f.Add(budget.Repeated(header+"classes:\n", part, size))
		f.Add(budget.Repeated(header+"types:\n  exclude:\n", "  "+part, size))
	}
	for _, text := range append(budget.YAML(header, "", 8<<10),
		budget.YAML(header+"classes:\n- type: a\n  labels:", "    ", size)...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []choice.Kind{choice.Manila, choice.Cinder} {
			var config *choice.Config
			var faults []choice.Fault
			budget.Check(t, func() { config, faults = choice.Parse(kind, text, flavour.Kubernetes) })
			assert.Assert(t, (config == nil) == (len(faults) > 0), "got %v and %v", config, faults)
			for _, fault := range faults {
				last := strings.Count(text, "\n") + strings.Count(text, "\r") + 2
				assert.Check(t, fault.Line >= 1 && fault.Line <= last &&
					!strings.ContainsFunc(fault.Problem, hidden), "got line %d: %q", fault.Line, fault.Problem)
			}
			if config != nil {
				checkClasses(t, config)
			}
		}
	})
}

func hidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' }

func checkClasses(t *testing.T, config *choice.Config) {
	t.Helper()
	for _, chosen := range append(config.More(), choice.NamedClass{Class: config.ClassOf("gold")}) {
		class := &storagev1.StorageClass{
			Provisioner: "x", Parameters: map[string]string{"type": "gold"},
		}
		chosen.Apply(class)
		config.MarkDefault(class)
		assert.Check(t, class.Provisioner == "x" && class.Parameters["type"] == "gold", "got %v", class)
		assert.Check(t, is.Len(metav1validation.ValidateLabels(class.Labels, nil), 0))
	}
}

// Each mistake in each field is named with the line and the field.
func TestEachMistakeNamesLineAndField(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(complete, "\n")
	for i, line := range lines {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		if value == "" || strings.Contains(key, "{") {
			continue
		}
		name := strings.TrimLeft(key, "- ")
		for kind, mutated := range map[string]string{
			"null": key + ": null", "empty": key + ":", "twice": line + strings.Replace(line, "-", " ", 1),
			"no colon": key + " x", "no end": key + ": 'x", "an alias": key + ": *x",
			"a brace": key + ": {x", "a misspelt key": key + "x: " + value,
			"a number in a list": key + ": [[1]]",
		} {
			text := strings.Join(lines[:i], "") + strings.TrimRight(mutated, "\n") + "\n" +
				strings.Join(lines[i+1:], "")
			_, faults := choice.Parse(choice.Manila, text, flavour.Kubernetes)
			at := slices.ContainsFunc(faults, func(f choice.Fault) bool {
				return (f.Line == i+1 || f.Line == i+2) && strings.Contains(f.Problem, name)
			})
			assert.Check(t, at, "%s is %s: %v", name, kind, faults)
		}
	}
}
