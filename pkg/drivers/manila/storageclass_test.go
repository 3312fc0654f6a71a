package manila

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const defaultClass = "storageclass.kubernetes.io/is-default-class"

// classBench runs single syncs of a storageClassController.
type classBench struct {
	*storageClassController
	fake     *clustertest.Fake
	recorder events.InMemoryRecorder
}

func newClassBench(t *testing.T, objects ...runtime.Object) classBench {
	t.Helper()
	fake, s := dependencies(t, objects...)
	b := classBench{newClasses(s), fake, s.Events.(events.InMemoryRecorder)}
	fake.Start(t)
	fake.Guest.ClearActions()
	return b
}

func newClasses(s plugin.Dependencies) *storageClassController {
	choices := plugin.NewChoices(s.Cluster, userConfigMap, choice.Manila)
	return newStorageClassController(s, newTopology(s, choices, nil))
}

func classNames() classes.Names {
	return classes.NamesOf(choice.Manila, string(opv1.ManilaCSIDriver))
}

func hashedName(shareType string) string { return classNames().Hashed(shareType) }

// list passes a successful probe to the controller.
func (c *storageClassController) list(types []string) {
	c.setShareTypes(cloudprobe.Result[[]openstack.Type]{Found: typesOf(types)})
}

// run syncs once and returns what was written.
func (b classBench) run(t *testing.T) ([]string, error) {
	t.Helper()
	err := b.Sync(t.Context(), nil)
	written := clustertest.Writes(b.fake.Guest)
	b.fake.StorageClasses(t)
	b.fake.Guest.ClearActions()
	return written, err
}

// warnings returns the reasons of the warnings so far.
func (b classBench) warnings() (reasons []string) {
	for _, event := range b.recorder.Events() {
		if event.Type == corev1.EventTypeWarning {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

// writes calls run, and expects these writes and no error.
func (b classBench) writes(t *testing.T, want ...string) {
	t.Helper()
	got, err := b.run(t)
	assert.NilError(t, err)
	assert.Assert(t, is.DeepEqual(want, got), "writes")
}

// asServed removes the fields that the API server adds.
func asServed() []cmp.Option {
	return []cmp.Option{
		cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields"),
		cmpopts.IgnoreTypes(metav1.TypeMeta{}), cmpopts.EquateEmpty(),
	}
}

func (b classBench) state(t *testing.T, state opv1.StorageClassStateName) {
	t.Helper()
	b.fake.State.Set(t, csiDriver(opv1.Managed, state))
}

// wanted returns the expected class, whose fields must not change between releases.
func wanted(name, shareType string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Provisioner: "manila.csi.openstack.org",
		Parameters: map[string]string{
			"type": shareType,
			"csi.storage.k8s.io/provisioner-secret-name":            "csi-manila-secrets",
			"csi.storage.k8s.io/provisioner-secret-namespace":       "openshift-manila-csi-driver",
			"csi.storage.k8s.io/controller-expand-secret-name":      "csi-manila-secrets",
			"csi.storage.k8s.io/controller-expand-secret-namespace": "openshift-manila-csi-driver",
			"csi.storage.k8s.io/node-stage-secret-name":             "csi-manila-secrets",
			"csi.storage.k8s.io/node-stage-secret-namespace":        "openshift-manila-csi-driver",
			"csi.storage.k8s.io/node-publish-secret-name":           "csi-manila-secrets",
			"csi.storage.k8s.io/node-publish-secret-namespace":      "openshift-manila-csi-driver",
		},
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: ptr.To(true),
	}
}

func TestClassesAreMadeOnce(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	b.writes(t) // nothing is known yet
	b.list([]string{"default", "Gold_1", "default"})
	b.writes(t, "create storageclasses/csi-manila-gold-1", "create storageclasses/csi-manila-default")
	want := []*storagev1.StorageClass{
		wanted("csi-manila-default", "default"), wanted("csi-manila-gold-1", "Gold_1"),
	}
	assert.Check(t, is.DeepEqual(want, b.fake.StorageClasses(t), asServed()...), "classes")
	for range 3 {
		b.list([]string{"Gold_1", "default"})
		b.writes(t)
	}
	b.list([]string{"foo_bar", "foo-bar", "in valid"}) // the names of two collide
	got, err := b.run(t)
	assert.NilError(t, err)
	assert.Assert(t, is.Len(got, 3))
	b.list([]string{"in valid", "foo-bar", "foo_bar"})
	b.writes(t)
}

// condition returns the condition about share types.
func (b classBench) condition(t *testing.T) opv1.OperatorCondition {
	t.Helper()
	return b.fake.State.Condition(t, "ManilaShareTypesServed")
}

func TestConditionNamesShareTypesThatAreNotServed(t *testing.T) {
	t.Parallel()
	foreign := wanted("csi-manila-taken", "taken")
	foreign.Provisioner = "other.example.com"
	second := foreign.DeepCopy()
	second.Name = hashedName("taken")
	own := wanted("mine", "a type that the administrator knows by its ID")
	b := newClassBench(t, wanted("csi-manila-default", "default"), wanted("csi-manila-gold", "gold"),
		foreign, second, own)
	b.writes(t)
	assert.Check(t, is.Equal(b.condition(t).Type, ""), "before the first list of share types")
	b.list([]string{"default", "taken", "bell\a"})
	b.writes(t)
	want := opv1.OperatorCondition{
		Type: "ManilaShareTypesServed", Status: opv1.ConditionFalse, Reason: "PartlyServed",
		Message: `share type "gold" is gone, so Manila creates no shares for StorageClass ` +
			"csi-manila-gold. Ask the administrator of the cloud for the share type, or delete the " +
			"StorageClass\n" +
			`share type "taken" gets no StorageClass: another StorageClass has the name ` +
			hashedName("taken") + ". Delete that StorageClass, or create one for the share type yourself\n" +
			`share type "bell\a" gets no StorageClass: its name contains unprintable characters. ` +
			"Ask the administrator of the cloud to rename it",
	}
	assert.Check(t, is.DeepEqual(want, b.condition(t)), "condition")
	b.writes(t)
	reasons := []string{"StorageClassNameTaken", "ShareTypeIgnored", "ShareTypeGone"}
	assert.Check(t, is.DeepEqual(reasons, b.warnings()), "warnings of two syncs")
	b.list([]string{"default", "gold"})
	b.writes(t)
	assert.Check(t, is.Equal(b.condition(t).Reason, "AsExpected"))
}

// A StorageClass that exists stays, and is repaired.
func TestShareTypesWithoutNFSGetNoClass(t *testing.T) {
	t.Parallel()
	b := newClassBench(t, wanted("csi-manila-old", "old"))
	types := typesOf([]string{"ceph", "old", "nfs"})
	types[0].OtherProtocol, types[1].OtherProtocol = "CEPHFS", "CIFS"
	b.setShareTypes(cloudprobe.Result[[]openstack.Type]{Found: types})
	b.writes(t, "create storageclasses/csi-manila-nfs")
	b.writes(t)
	want := `share type "ceph" has no shares that the driver mounts (storage_protocol is ` +
		`"CEPHFS", not NFS), so it gets no StorageClass. Exclude it in key operator.yaml of ` +
		"ConfigMap openshift-config/manila-csi-config\n" +
		`share type "old" has no shares that the driver mounts (storage_protocol is "CIFS", not NFS), ` +
		"so StorageClass csi-manila-old gets none. Exclude it in key operator.yaml of ConfigMap " +
		"openshift-config/manila-csi-config"
	assert.Check(t, is.Equal(b.condition(t).Message, want))
}

func TestConditionNamesAtMostTenShareTypes(t *testing.T) {
	t.Parallel()
	var classes []runtime.Object
	for i := range 12 {
		name := fmt.Sprintf("type-%d", i)
		classes = append(classes, wanted("csi-manila-"+name, name))
	}
	b := newClassBench(t, classes...)
	b.list(nil) // Manila offers no share type any more
	b.writes(t)
	message := b.condition(t).Message
	assert.Check(t, is.Equal(strings.Count(message, " is gone"), 10), message)
	assert.Check(t, strings.HasSuffix(message, "\nand 2 more"), message)
	b.state(t, opv1.UnmanagedStorageClass)
	b.writes(t)
	assert.Check(t, is.Equal(b.condition(t).Status, opv1.ConditionTrue))
}

// TestFreedNameIsUsedAtOnce deletes the StorageClass of another driver, as the condition advises.
func TestFreedNameIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	foreign, second := wanted("csi-manila-gold", "gold"), wanted(hashedName("gold"), "gold")
	foreign.Provisioner, second.Provisioner = "other.example.com", "other.example.com"
	b := newClassBench(t, foreign, second)
	b.list([]string{"gold"})
	go b.Run(t.Context(), 1)
	reported := func(status opv1.ConditionStatus) {
		t.Helper()
		clustertest.Eventually(t, func() bool { return b.condition(t).Status == status }, string(status))
	}
	reported(opv1.ConditionFalse)
	clustertest.Delete(t, b.fake.Guest, second)
	reported(opv1.ConditionTrue)
}

func TestStorageClassState(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	b.list([]string{"a", "b c"})
	b.state(t, opv1.UnmanagedStorageClass)
	b.writes(t)
	b.state(t, "")
	b.writes(t, "create storageclasses/csi-manila-a", "create storageclasses/"+hashedName("b c"))
	b.state(t, opv1.RemovedStorageClass)
	b.writes(t, "delete storageclasses/csi-manila-a", "delete storageclasses/"+hashedName("b c"))
	b.writes(t)
	b.state(t, "Perhaps")
	got, err := b.run(t)
	assert.Check(t, is.ErrorContains(err, "Perhaps"))
	assert.Check(t, is.Len(got, 0))
}

func TestRemovedStateDeletesClasses(t *testing.T) {
	t.Parallel()
	older := wanted("csi-manila-older", "older") // of a release without expansion, and changed by hand
	delete(older.Parameters, "csi.storage.k8s.io/controller-expand-secret-name")
	older.AllowVolumeExpansion = ptr.To(false)
	renamed := wanted("my-gold", "gold")
	ownSecret := wanted("csi-manila-own", "own")
	ownSecret.Parameters["csi.storage.k8s.io/provisioner-secret-name"] = "own"
	foreign := wanted("csi-manila-foreign", "foreign")
	foreign.Provisioner = "other.example.com"
	b := newClassBench(t, older, renamed, ownSecret, foreign, wanted("csi-manila-gone", "gone"),
		wanted("csi-manila-listed", "listed"))
	b.list([]string{"listed"})
	b.state(t, opv1.RemovedStorageClass)
	b.writes(t, "delete storageclasses/csi-manila-gone", "delete storageclasses/csi-manila-listed",
		"delete storageclasses/csi-manila-older")
}

// A name could break a terminal or a web page.
func TestUnprintableTypesGetNoClass(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	b.list([]string{
		"gold", "new\nline", "nul\x00", "\x1b[31mred", "over\u202eride", "zero\u200bwidth",
		"soft\u00adhyphen", "Zürich/1 (größer)",
	})
	b.writes(t, "create storageclasses/"+hashedName("Zürich/1 (größer)"),
		"create storageclasses/csi-manila-gold")
	b.writes(t)
	told := clustertest.Messages(b.recorder, "ShareTypeIgnored")
	assert.Assert(t, len(told) == 1 && strings.Contains(told[0], `"new\nline"`) &&
		strings.HasSuffix(told[0], "and 1 more"), "%q is not one warning with the first types", told)
	unprintable := func(r rune) bool { return r < ' ' || r == '\u202e' }
	assert.Check(t, !strings.ContainsFunc(told[0], unprintable), "%q", told[0])
}

// A cloud may list other types each time.
func TestCloudThatInventsTypes(t *testing.T) {
	t.Parallel()
	var objects []runtime.Object
	for i := range 999 {
		name := fmt.Sprintf("gone-%d", i)
		objects = append(objects, wanted(classNames().Plain(name), name))
	}
	objects = append(objects,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Provisioner: "other"})
	b := newClassBench(t, objects...)
	b.list([]string{"gone-0", "new-a", "new-b", "new-c"})
	b.writes(t, "create storageclasses/csi-manila-new-a")
	b.writes(t)
	told := clustertest.Messages(b.recorder, "ShareTypeIgnored")
	want := `the driver has 1000 StorageClasses, and the operator creates no more, so 2 share types ` +
		`get none: "new-b", "new-c". Exclude share types in key operator.yaml of ConfigMap ` +
		`openshift-config/manila-csi-config, or delete StorageClasses that nobody uses`
	assert.Check(t, is.DeepEqual([]string{want}, told), "events")
}

func TestMessageOfManyFailures(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	react := func(action clienttesting.Action) (bool, runtime.Object, error) {
		class, ok := action.(clienttesting.CreateAction).GetObject().(*storagev1.StorageClass)
		return ok && class.Name != "csi-manila-gold", nil, errors.New("refused")
	}
	b.fake.Guest.PrependReactor("create", "storageclasses", react)
	types := []string{"gold", "a"}
	for i := range 200 {
		types = append(types, fmt.Sprintf("type-%03d-%s", i, strings.Repeat("x", 200)))
	}
	b.list(types)
	_, err := b.run(t)
	assert.Check(t, is.ErrorContains(err, `StorageClass csi-manila-a of share type "a": refused`))
	message := err.Error()
	assert.Check(t, len(message) < 5000 && strings.HasSuffix(message, "and 196 more"), message)
	classes := b.fake.StorageClasses(t)
	assert.Check(t, len(classes) == 1 && classes[0].Name == "csi-manila-gold", "%v", classes)
}
