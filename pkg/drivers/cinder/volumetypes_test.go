package cinder

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const cinderChoices = "apiVersion: config.csi.openstack.org/v1alpha1\nkind: CinderConfig\n"

// choose writes choices and offers types.
func (b *fixture) choose(t *testing.T, text string, types ...string) {
	t.Helper()
	b.put(t, keys{"operator.yaml": cinderChoices + text})
	b.cloud.types = nil
	for _, name := range types {
		b.cloud.types = append(b.cloud.types, openstack.Type{Name: name})
	}
}

// syncClasses probes, syncs the StorageClasses, and returns what was written.
func (b *fixture) syncClasses(t *testing.T) []string {
	t.Helper()
	b.trigger(t)
	b.writes()
	assert.NilError(t, b.types.Sync(t.Context(), nil))
	defer b.StorageClasses(t)
	return b.writes()
}

// ignored returns the condition about the choices.
func (b *fixture) ignored(t *testing.T) string {
	t.Helper()
	assert.NilError(t, b.configure(t))
	found := b.State.Condition(t, validType)
	if found.Status == opv1.ConditionTrue {
		return ""
	}
	return found.Reason + " " + strings.ReplaceAll(found.Message,
		"key operator.yaml of ConfigMap openshift-config/cinder-csi-config: ", "")
}

func TestVolumeTypesAreNotListedWithoutAChoice(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	for _, choices := range []string{
		"class: {reclaimPolicy: Retain}\n", "types: {include: []}\n", "types: 5\n",
	} {
		b.choose(t, choices, "gold")
		assert.Check(t, is.Len(b.syncClasses(t), 0))
		assert.Check(t, is.Equal(b.cloud.typeLists, 0), "requests")
	}
}

func TestClassesOfVolumeTypes(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.choose(t, `
types: {include: ['gold*', 'fast_*'], exclude: ['*-test']}
defaultClass: nodes
classes:
- {type: gold, reclaimPolicy: Retain}
- {type: silver, name: nodes, volumeBindingMode: Immediate, availability: a}
`, "gold", "gold-test", "silver", "fast_1", "fast 2")
	assert.Check(t, is.DeepEqual([]string{
		"create storageclasses/csi-cinder-gold", "create storageclasses/nodes",
		"create storageclasses/csi-cinder-fast-1",
	}, b.syncClasses(t), cmpopts.SortSlices(strings.Compare)))
	class := func(name, volumeType string) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
				"storageclass.kubernetes.io/is-default-class": "false",
			}},
			Provisioner: "cinder.csi.openstack.org", Parameters: map[string]string{"type": volumeType},
			ReclaimPolicy:        new(corev1.PersistentVolumeReclaimDelete),
			VolumeBindingMode:    new(storagev1.VolumeBindingWaitForFirstConsumer),
			AllowVolumeExpansion: new(true),
		}
	}
	fast, gold := class("csi-cinder-fast-1", "fast_1"), class("csi-cinder-gold", "gold")
	nodes := class("nodes", "silver")
	gold.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain)
	nodes.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
	nodes.Parameters["availability"] = "a"
	nodes.Annotations["storageclass.kubernetes.io/is-default-class"] = "true"
	assert.Check(t, is.DeepEqual([]*storagev1.StorageClass{fast, gold, nodes}, b.StorageClasses(t),
		cmpopts.IgnoreTypes(metav1.TypeMeta{})))
	assert.Check(t, is.Len(b.syncClasses(t), 0), "the second sync")
	assert.Check(t, is.Equal(b.ignored(t), ""))
}

// The charts of cloud-provider-openstack create csi-cinder-sc-delete and csi-cinder-sc-retain.
func TestClassesOfOthersAreTakenOver(t *testing.T) {
	t.Parallel()
	class := func(name string, parameters map[string]string) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Parameters: parameters,
			Provisioner:       "cinder.csi.openstack.org",
			ReclaimPolicy:     new(corev1.PersistentVolumeReclaimRetain),
			VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
		}
	}
	hashed := classes.NamesOf(choice.Cinder, "").Hashed("gold")
	b := newFixture(t, standalone(class("csi-cinder-sc-retain", nil),
		class(hashed, map[string]string{"type": "gold"})))
	b.choose(t, `
class: {labels: {tier: gold}, reclaimPolicy: Delete}
defaultClass: csi-cinder-sc-retain
classes:
- {name: csi-cinder-sc-retain}
- {name: csi-cinder-sc-delete}
- {name: plain}
- {type: gold, name: `+hashed+`}
`, "gold", "sc-retain")
	assert.Check(t, is.DeepEqual([]string{
		"update storageclasses/csi-cinder-sc-retain", "create storageclasses/plain",
	}, b.syncClasses(t), cmpopts.SortSlices(strings.Compare)))
	for _, class := range b.StorageClasses(t) {
		if class.Name == "csi-cinder-sc-retain" {
			assert.Check(t, *class.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain &&
				class.Labels["tier"] == "gold" && choice.IsDefault(class), "%v", class)
		} else if class.Name == "plain" {
			assert.Check(t, is.Len(class.Parameters, 0))
		}
	}
	ignored := b.ignored(t)
	assert.Check(t, strings.Contains(ignored, "there is no StorageClass csi-cinder-sc-delete, and "+
		"the operator creates one whose name starts with csi-cinder- only for a volume type") &&
		strings.Contains(ignored, "StorageClass "+hashed+" is the one that the operator creates for "+
			`volume type "gold". Remove the name`), ignored)
}

// Types are gone, or are not selected any more.
func TestClassesOfVolumeTypesStay(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.choose(t, "types: {include: ['g*', tin]}\n", "gold", "gray", "tin")
	b.syncClasses(t)
	b.choose(t, "types: {include: ['g*']}\n", "gray")
	assert.Check(t, is.Len(b.syncClasses(t), 0))
	want := `PartlyIgnored volume type "gold" is gone, so Cinder creates no volumes for ` +
		"StorageClass csi-cinder-gold. Ask the administrator of the cloud for the volume type, or " +
		"delete the StorageClass"
	assert.Check(t, is.DeepEqual(want, b.ignored(t)))
	told := []string{strings.TrimPrefix(want, "PartlyIgnored ")}
	assert.Check(t, is.DeepEqual(told, b.messages("VolumeTypeGone")), "events")
	name := metav1.ObjectMeta{Name: string(opv1.CinderCSIDriver)}
	b.State.Set(t, &opv1.ClusterCSIDriver{ObjectMeta: name, Spec: opv1.ClusterCSIDriverSpec{
		OperatorSpec:      opv1.OperatorSpec{ManagementState: opv1.Managed},
		StorageClassState: opv1.RemovedStorageClass,
	}})
	// csi-cinder-tin may be a class of the administrator.
	assert.Check(t, is.DeepEqual([]string{
		"delete storageclasses/csi-cinder-gold", "delete storageclasses/csi-cinder-gray",
	}, b.syncClasses(t)))
	assert.Check(t, is.Equal(b.ignored(t), ""), "reported")
}

func TestChoicesOfVolumeTypesWithoutEffectAreReported(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.choose(t, "types: {include: [gold, 'fast-*', \"\\u200b\"]}\n"+
		"classes: [{type: iron}, {type: tin}]\n", "gold", "tin", "\u200b")
	b.syncClasses(t)
	const advice = " matches no volume type that Cinder offers: correct or remove it\n"
	const told = `volume type "\u200b" gets no StorageClass: its name contains unprintable ` +
		"characters. Ask the administrator of the cloud to rename it"
	want := `PartlyIgnored classes[0].type: "iron"` + advice + `classes[1].type: "tin" has ` +
		"no effect: types does not select this volume type. Select it there, or remove the entry\n" +
		`types.include[1]: "fast-*"` + advice + told
	assert.Check(t, is.Equal(b.ignored(t), want))
	assert.Check(t, is.DeepEqual([]string{told}, b.messages("VolumeTypeIgnored")), "events")
	b.put(t, nil)
	assert.Check(t, is.Equal(b.ignored(t), ""), "reported without choices")
}

// Zones and topology do not depend on volume types.
func TestFailedListOfVolumeTypesChangesNothing(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	b.choose(t, "types: {include: ['*']}\n", "gold")
	b.cloud.typesErr = &openstack.Error{Reason: openstack.NotOffered, Message: "no"}
	assert.Check(t, is.Len(b.syncClasses(t), 0))
	assert.Check(t, is.Equal(b.condition(t, reachableType), "True AsExpected"))
	want := "PartlyIgnored new volume types get no StorageClass, because they cannot be listed: no"
	assert.Check(t, is.Equal(b.ignored(t), want))
	b.cloud.typesErr = nil
	b.cloud.fail(openstack.CloudUnreachable)
	lists := b.cloud.typeLists
	assert.Check(t, is.Len(b.syncClasses(t), 0), "in an outage")
	assert.Check(t, is.Equal(b.cloud.typeLists, lists), "requests in an outage")
	b.cloud.fail(openstack.NotOffered) // a policy forbids the zones
	assert.Check(t, is.DeepEqual([]string{"create storageclasses/csi-cinder-gold"}, b.syncClasses(t)))
}

// FuzzChoices: whatever an administrator writes and whatever a volume type is called, a
// StorageClass is valid and belongs to its volume type. standard-csi belongs to none.
func FuzzChoices(f *testing.F) {
	for _, text := range []string{
		"", cinderChoices, cinderChoices + "classes: [{type: gold, name: x, availability: az1}]\n",
		cinderChoices + "classes: [{name: x}, {name: csi-cinder-sc-delete}]\n",
		cinderChoices + "types: {include: ['*']}\ndefaultClass: x\nclass: {labels: {a: b}}\n",
		cinderChoices + "defaultClass: standard-csi\nclass: {availability: az1, mountOptions: [ro]}\n",
	} {
		f.Add(text, "gold")
	}
	types := newFixture(f, standalone()).types
	standard := assetsOf[storagev1.StorageClass](f, flavour.Standalone, bundle.StorageClass)[0]
	f.Fuzz(func(t *testing.T, text, name string) {
		config, valid := clustertest.CheckChoices(t, types.Controller, types, text,
			openstack.Type{Name: name})
		if !valid {
			return
		}
		class := standard.DeepCopy()
		config.ClassOf("").Apply(class)
		config.MarkDefault(class)
		clustertest.CheckClass(t, class, &standard)
		assert.Check(t, class.Parameters["type"] == "" && class.Name == standard.Name, "%+v", class)
	})
}
