package manila

import (
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	choicesHeader = "apiVersion: config.csi.openstack.org/v1alpha1\nkind: ManilaConfig\n"
	network       = "0d1f9d31-3a80-4bd6-9f6c-1e0b1a3c7f11"
)

// chosen returns the ConfigMap with choices.
func chosen(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "manila-csi-config"},
		Data:       map[string]string{"operator.yaml": choicesHeader + text},
	}
}

// choose replaces the choices, and waits until the operator knows them.
func (b classBench) choose(t *testing.T, text string) {
	t.Helper()
	configMap := chosen(text)
	clustertest.Put(t, b.fake.Guest, configMap)
	clustertest.CatchUp(t, b.fake.Guest.CoreV1().ConfigMaps(configMap.Namespace), configMap.Name,
		b.topology.choices.Get)
	b.fake.Guest.ClearActions()
}

// offer passes a successful probe to the controller. Types that start with "net" need a network.
func (b classBench) offer(names ...string) {
	types := typesOf(names)
	for i := range types {
		types[i].NeedsNetwork = strings.HasPrefix(types[i].Name, "net")
	}
	b.setShareTypes(cloudprobe.Result[[]openstack.Type]{Found: types})
}

func TestTypesAreSelected(t *testing.T) {
	t.Parallel()
	kept := wanted("csi-manila-kept-test", "kept-test")
	kept.AllowVolumeExpansion = nil
	b := newClassBench(t, kept, chosen("types: {include: [gold*, kept*], exclude: ['*-test']}\n"))
	b.offer("gold", "gold-test", "kept-test", "silver")
	b.writes(t, "create storageclasses/csi-manila-gold")
	b.choose(t, "types: {exclude: [gold]}\n")
	b.writes(t, "create storageclasses/csi-manila-gold-test",
		"update storageclasses/csi-manila-kept-test", "create storageclasses/csi-manila-silver")
}

func TestOptionsAreApplied(t *testing.T) {
	t.Parallel()
	before := wanted("csi-manila-gold", "gold")
	before.Annotations = map[string]string{defaultClass: "true"}
	b := newClassBench(t, before, chosen(`
defaultClass: nodes
class: {reclaimPolicy: Retain, shareNetworkID: `+network+`}
classes:
- type: gold
  name: nodes
  volumeBindingMode: WaitForFirstConsumer
  mountOptions: [nfsvers=4.1]
  labels: {tier: gold}
  availability: az1
  shareClients: [10.0.0.0/16, 10.1.0.0/16]
  shareMetadata: {team: storage}
`))
	b.offer("gold", "net")
	b.writes(t, "delete storageclasses/csi-manila-gold", "create storageclasses/csi-manila-gold",
		"create storageclasses/csi-manila-net", "create storageclasses/nodes")
	gold, net, nodes := wanted("csi-manila-gold", "gold"), wanted("csi-manila-net", "net"),
		wanted("nodes", "gold")
	for _, class := range []*storagev1.StorageClass{gold, net, nodes} {
		class.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain)
		class.Annotations = map[string]string{defaultClass: "false"}
	}
	net.Parameters["shareNetworkID"] = network
	nodes.Annotations[defaultClass] = "true"
	nodes.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
	nodes.MountOptions, nodes.Labels = []string{"nfsvers=4.1"}, map[string]string{"tier": "gold"}
	nodes.Parameters["availability"] = "az1"
	nodes.Parameters["nfs-shareClient"] = "10.0.0.0/16,10.1.0.0/16"
	nodes.Parameters["appendShareMetadata"] = `{"team":"storage"}`
	want := []*storagev1.StorageClass{gold, net, nodes}
	assert.Check(t, is.DeepEqual(want, b.fake.StorageClasses(t), asServed()...), "classes")
	b.writes(t)
	b.state(t, opv1.RemovedStorageClass)
	b.writes(t, "delete storageclasses/csi-manila-gold", "delete storageclasses/csi-manila-net",
		"delete storageclasses/nodes")
}

// The type of the earlier default is gone or excluded, or its additional class was renamed.
func TestOnlyOneClassOfTheOperatorIsTheDefault(t *testing.T) {
	t.Parallel()
	gone, beta := wanted("csi-manila-gone", "gone"), wanted("csi-manila-excluded", "excluded")
	gone.Annotations = map[string]string{defaultClass: "true"}
	const betaDefault = "storageclass.beta.kubernetes.io/is-default-class"
	beta.Annotations = map[string]string{betaDefault: "true"}
	other := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "of-others", Annotations: beta.Annotations},
		Provisioner: "example.com",
	}
	b := newClassBench(t, gone, beta, other, chosen(`
types: {exclude: [excluded]}
defaultClass: node
classes: [{type: gold, name: nodes}]
`))
	const at = "key operator.yaml of ConfigMap openshift-config/manila-csi-config: defaultClass: "
	another := func(name, annotation string) string {
		return at + "StorageClass " + name + " is a default, too, and claims get the newest one: set " +
			"its annotation " + annotation + " to false"
	}
	b.offer("gold", "excluded")
	b.writes(t, "create storageclasses/csi-manila-gold", "create storageclasses/nodes")
	assert.Check(t, is.DeepEqual([]string{
		at + `there is no StorageClass "node": did you mean "nodes"?`,
		another("csi-manila-excluded", betaDefault), another("csi-manila-gone", defaultClass),
		another("of-others", betaDefault),
	}, b.Defaults()))
	b.choose(t, "types: {exclude: [excluded]}\ndefaultClass: nodes\n"+
		"classes: [{type: gold, name: nodes}]\n")
	b.writes(t, "update storageclasses/nodes", "update storageclasses/csi-manila-excluded",
		"update storageclasses/csi-manila-gone")
	b.choose(t, "types: {exclude: [excluded]}\ndefaultClass: knots\n"+
		"classes: [{type: gold, name: knots}]\n")
	b.writes(t, "create storageclasses/knots")
	b.writes(t, "update storageclasses/nodes")
	assert.Check(t, is.DeepEqual([]string{another("of-others", betaDefault)}, b.Defaults()))
	for _, class := range b.fake.StorageClasses(t) {
		want := class.Name == "knots" || class.Name == "of-others"
		assert.Check(t, is.Equal(choice.IsDefault(class), want), class.Name)
	}
	b.choose(t, "defaultClass: absent\n")
	got := b.Defaults()[0]
	const unknown = at + `there is no StorageClass "absent": write one of csi-manila-`
	assert.Check(t, strings.HasPrefix(got, unknown), got)
}

// TestTypesThatNeedANetwork: without choices, these types get a class as before.
func TestTypesThatNeedANetwork(t *testing.T) {
	t.Parallel()
	const gold, net = "create storageclasses/csi-manila-gold", "create storageclasses/csi-manila-net"
	for text, want := range map[string][]string{"": {gold, net}, "driver: Auto\n": {gold}} {
		b := newClassBench(t)
		if text != "" {
			b = newClassBench(t, chosen(text))
		}
		b.offer("gold", "net")
		b.writes(t, want...)
		message := `share type "net" needs a share network, which StorageClass csi-manila-net does not ` +
			"name, so Manila creates no shares. Set shareNetworkID for the share type in key " +
			"operator.yaml of ConfigMap openshift-config/manila-csi-config, or exclude the share type there"
		assert.Check(t, is.Equal(b.condition(t).Message, message))
		assert.Check(t, is.DeepEqual([]string{"ShareTypeWithoutNetwork"}, b.warnings()))
	}
}

func TestLastValidChoicesApply(t *testing.T) {
	t.Parallel()
	b := newClassBench(t, chosen("types: {include: [gold]}\n"))
	b.offer("gold", "silver")
	b.writes(t, "create storageclasses/csi-manila-gold")
	b.choose(t, "types: {includes: [silver]}\n")
	b.writes(t)
	b.offer("gold", "silver", "bronze")
	b.writes(t)
	b.choose(t, "types: {include: [silver]}\n")
	b.writes(t, "create storageclasses/csi-manila-silver")
}

func TestInvalidChoicesAtStartChangeNoClass(t *testing.T) {
	t.Parallel()
	b := newClassBench(t, chosen("type: {}\n"), wanted("csi-manila-iron", "iron"))
	b.offer("gold")
	b.writes(t)
	b.state(t, opv1.RemovedStorageClass)
	b.writes(t, "delete storageclasses/csi-manila-iron")
}

func TestUserConfigIsReported(t *testing.T) {
	t.Parallel()
	const at = "key operator.yaml of ConfigMap openshift-config/manila-csi-config"
	configMap := chosen("types: {include: [gold, 'fast-*']}\nclasses: [{type: iron}]\n")
	configMap.Data["operator.yml"] = ""
	fake, s := dependencies(t, configMap)
	components, err := Driver().Setup(s)
	assert.NilError(t, err)
	fake.Start(t)
	expect := func(status opv1.ConditionStatus, reason, message string) {
		t.Helper()
		assert.NilError(t, components.UserConfig.Sync(t.Context(), nil))
		want := opv1.OperatorCondition{
			Type: "ManilaUserConfigValid", Status: status, Reason: reason, Message: message,
		}
		assert.Check(t, is.DeepEqual(want, fake.State.Condition(t, want.Type)), "condition")
	}
	expect(opv1.ConditionFalse, "PartlyIgnored", "key operator.yml of ConfigMap "+
		"openshift-config/manila-csi-config is ignored: only key operator.yaml is read. Rename or "+
		"remove it")
	b := classBench{newClasses(s), fake, s.Events.(events.InMemoryRecorder)}
	b.offer("gold")
	const advice = " matches no share type that Manila offers: correct or remove it"
	want := []string{
		at + `: classes[0].type: "iron"` + advice, at + `: types.include[1]: "fast-*"` + advice,
	}
	assert.Check(t, is.DeepEqual(want, b.Unused()), "unused")
	b.choose(t, "typ: {}\nclass: {reclaimpolicy: Retain}\n")
	expect(opv1.ConditionFalse, "Invalid",
		at+`, line 3: unknown field "typ": did you mean "types"?`+"\n"+
			at+`, line 4: unknown field "class.reclaimpolicy": did you mean "reclaimPolicy"?`+"\n"+
			"Until this is corrected, the last valid configuration applies")
	b.choose(t, "driver: Never\n")
	expect(opv1.ConditionTrue, "AsExpected", "Nothing in the administrator's configuration is ignored")
}

func TestChoiceThatAVariableOverridesIsReported(t *testing.T) {
	t.Parallel()
	const sidecar, driver = "CSI_ADDONS_SIDECAR_IMAGE", "CSI_ADDONS_DRIVER_IMAGE"
	fake, s := dependencies(t, chosen("sidecars: {releaseLeases: Never}\n"+
		"csiDriver: {fsGroupPolicy: File}\ncsiAddons: {image: a, maxAccessRules: 3}\n"))
	components, err := Driver().Setup(s)
	assert.NilError(t, err)
	fake.Start(t)
	expect := func(reason string, want []string) {
		t.Helper()
		assert.NilError(t, components.UserConfig.Sync(t.Context(), nil))
		got := fake.State.Condition(t, "ManilaUserConfigValid")
		assert.Check(t, is.Equal(got.Reason, reason))
		found := regexp.MustCompile(`\S+ has no effect: the environment variable \S+`)
		assert.Check(t, is.DeepEqual(found.FindAllString(got.Message, -1), want), got.Message)
	}
	expect("AsExpected", nil)
	*s.Settings = settings.Settings{
		ReleaseLeases: new(false), FSGroupPolicy: storagev1.FileFSGroupPolicy,
		Images:    map[string]string{sidecar: "a", driver: "a"},
		CSIAddons: settings.CSIAddons{MaxAccessRules: 3},
	}
	expect("AsExpected", nil) // they agree
	*s.Settings = settings.Settings{
		ReleaseLeases: new(true), FSGroupPolicy: storagev1.NoneFSGroupPolicy,
		Images:    map[string]string{sidecar: "b", driver: "b"},
		CSIAddons: settings.CSIAddons{MaxAccessRules: 4},
	}
	const by = " has no effect: the environment variable "
	expect("PartlyIgnored", []string{
		"sidecars.releaseLeases" + by + "RELEASE_LEASES",
		"csiDriver.fsGroupPolicy" + by + "CSI_FSGROUP_POLICY",
		"csiAddons.image" + by + sidecar, "csiAddons.image" + by + driver,
		"csiAddons.maxAccessRules" + by + "CSI_ADDONS_MAX_ACCESS_RULES",
	})
}

func TestDriverIsNotInstalledIfNotWanted(t *testing.T) {
	t.Parallel()
	b := newClassBench(t, chosen("driver: Never\n"))
	for _, cloud := range []lister{{types: []string{"gold"}}, {}} {
		types, availability, err := listShareTypes(b.topology.choices, cloud.ShareTypes)(t.Context())
		wantReason := map[bool]string{true: "NotWanted", false: "NoShareTypes"}[len(types) > 0]
		assert.Check(t, err == nil && !availability.Available && availability.Reason == wantReason,
			"got %+v, %v", availability, err)
	}
}

// FuzzChoices: whatever an administrator writes and whatever a share type is called, a StorageClass
// is valid and belongs to its share type, and its Secrets stay the same.
func FuzzChoices(f *testing.F) {
	for _, text := range []string{
		"", choicesHeader, choicesHeader + "classes: [{type: gold, name: x, shareClients: [::/0]}]\n",
		choicesHeader + "types: {include: ['*']}\ndefaultClass: x\nclass: {labels: {a: b}}\n",
		choicesHeader + "class: {shareNetworkID: " + network + ", shareMetadata: {type: x}}\n",
	} {
		f.Add(text, "gold")
	}
	_, s := dependencies(f)
	c := newClasses(s)
	f.Fuzz(func(t *testing.T, text, name string) {
		shareType := openstack.Type{Name: name, NeedsNetwork: len(name)%2 == 0}
		clustertest.CheckChoices(t, c.Controller, c, text, shareType)
	})
}
