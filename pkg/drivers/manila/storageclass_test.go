package manila

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const defaultClass = "storageclass.kubernetes.io/is-default-class"

// classBench runs single syncs of a storageClassController.
type classBench struct {
	*storageClassController
	fake     *clustertest.Fake
	recorder events.Recorder
}

func newClassBench(t *testing.T, objects ...runtime.Object) classBench {
	t.Helper()
	fake, s := dependencies(t, objects...)
	b := classBench{newClasses(s), fake, s.Events}
	fake.Start(t)
	fake.Guest.ClearActions()
	return b
}

func newClasses(s plugin.Dependencies) *storageClassController {
	return newStorageClassController(s, plugin.NewChoices(s.Cluster, userConfigMap, choice.Manila))
}

// hashedName returns the name with a hash of the class of a share type.
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
	settle(t, func() ([]*storagev1.StorageClass, error) { return b.served(t), nil },
		func() ([]*storagev1.StorageClass, error) {
			classes := b.cluster.Side(flavour.Guest).Informers.InformersFor("").Storage().V1()
			return classes.StorageClasses().Lister().List(labels.Everything())
		})
	b.fake.Guest.ClearActions()
	return written, err
}

// warnings returns the reasons of the warnings so far.
func (b classBench) warnings(t *testing.T) []string {
	t.Helper()
	recorder, ok := b.recorder.(events.InMemoryRecorder)
	assert.Assert(t, ok, "events go to a %T", b.recorder)
	var reasons []string
	for _, event := range recorder.Events() {
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

func (b classBench) served(t *testing.T) []*storagev1.StorageClass {
	t.Helper()
	list, err := b.fake.Guest.StorageV1().StorageClasses().List(t.Context(), metav1.ListOptions{})
	assert.NilError(t, err)
	var ret []*storagev1.StorageClass
	for i := range list.Items {
		ret = append(ret, &list.Items[i])
	}
	return ret
}

func (b classBench) class(t *testing.T, name string) *storagev1.StorageClass {
	t.Helper()
	class, err := b.fake.Guest.StorageV1().StorageClasses().Get(t.Context(), name, metav1.GetOptions{})
	assert.NilError(t, err)
	return class
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
	assert.Check(t, is.DeepEqual(want, b.served(t), asServed()...), "classes")
	for range 3 {
		b.list([]string{"Gold_1", "default"})
		b.writes(t)
	}
}

func TestClassesOutliveTheirTypes(t *testing.T) {
	t.Parallel()
	b := newClassBench(t, wanted("csi-manila-default", "default"), wanted("csi-manila-gold", "gold"))
	for _, types := range [][]string{{"default"}, nil, {}} {
		b.list(types)
		b.writes(t)
	}
}

// condition returns the condition about share types, or nil.
func (b classBench) condition(t *testing.T) *opv1.OperatorCondition {
	t.Helper()
	return v1helpers.FindOperatorCondition(b.fake.State.SortedConditions(t), "ManilaShareTypesServed")
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
	if c := b.condition(t); c != nil {
		t.Fatalf("condition %+v before the first list of share types", c)
	}
	b.list([]string{"default", "taken", "bell\a"})
	b.writes(t)
	want := &opv1.OperatorCondition{
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
	assert.Check(t, is.DeepEqual(reasons, b.warnings(t)), "warnings of two syncs")
	b.list([]string{"default", "gold"})
	b.writes(t)
	if c := b.condition(t); c.Status != opv1.ConditionTrue || c.Reason != "AsExpected" {
		t.Errorf("condition %+v although each share type has a class", c)
	}
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
	if strings.Count(message, " is gone") != 10 || !strings.HasSuffix(message, "\nand 2 more") {
		t.Errorf("the message is\n%s", message)
	}
	b.state(t, opv1.UnmanagedStorageClass)
	b.writes(t)
	if c := b.condition(t); c.Status != opv1.ConditionTrue {
		t.Errorf("condition %+v of classes that the operator does not maintain", c)
	}
}

func TestCollidingTypesSettle(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	b.list([]string{"foo_bar", "foo-bar", "in valid"})
	got, err := b.run(t)
	assert.Assert(t, err == nil && len(got) == 3, "got %v, %v; want three classes", got, err)
	b.list([]string{"in valid", "foo-bar", "foo_bar"})
	b.writes(t)
}

func TestWhatTheAdministratorSetStays(t *testing.T) {
	t.Parallel()
	class := wanted("csi-manila-default", "default")
	class.Annotations = map[string]string{defaultClass: "true", "example.com/note": "mine"}
	class.Labels = map[string]string{"example.com/team": "a"}
	class.MountOptions = []string{"nfsvers=4.1"}
	class.AllowedTopologies = []corev1.TopologySelectorTerm{{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: "zone", Values: []string{"a"}},
		},
	}}

	t.Run("nothing is written", func(t *testing.T) {
		t.Parallel()
		b := newClassBench(t, class.DeepCopy())
		b.list([]string{"default"})
		b.writes(t)
	})
	t.Run("not when immutable fields change either", func(t *testing.T) {
		t.Parallel()
		older := class.DeepCopy()
		delete(older.Parameters, "csi.storage.k8s.io/controller-expand-secret-name")
		delete(older.Parameters, "csi.storage.k8s.io/controller-expand-secret-namespace")
		b := newClassBench(t, older)
		b.list([]string{"default"})
		b.writes(t, "delete storageclasses/csi-manila-default",
			"create storageclasses/csi-manila-default")
		assert.Check(t, is.DeepEqual(class, b.class(t, "csi-manila-default"), asServed()...), "class")
		b.writes(t)
	})
	t.Run("a mutable field is updated in place", func(t *testing.T) {
		t.Parallel()
		changed := class.DeepCopy()
		changed.AllowVolumeExpansion = nil
		b := newClassBench(t, changed)
		b.list([]string{"default"})
		b.writes(t, "update storageclasses/csi-manila-default")
		assert.Check(t, is.DeepEqual(class, b.class(t, "csi-manila-default"), asServed()...), "class")
	})
}

func TestForeignClassesAreNotTouched(t *testing.T) {
	t.Parallel()
	foreign := wanted("csi-manila-default", "default")
	foreign.Provisioner = "other.example.com"
	second := wanted(hashedName("gold"), "gold")
	second.Provisioner = "other.example.com"
	third := wanted("csi-manila-gold", "gold")
	third.Provisioner = "other.example.com"
	b := newClassBench(t, foreign, second, third)
	b.list([]string{"default", "gold"})

	got, err := b.run(t)
	assert.Check(t, is.DeepEqual([]string{"create storageclasses/" + hashedName("default")}, got),
		"writes")
	assert.Check(t, err, "a name that is taken degrades the driver")
	_, err = b.run(t)
	if diff := cmp.Diff([]string{"StorageClassNameTaken"}, b.warnings(t)); err != nil || diff != "" {
		t.Errorf("warnings of two syncs, error %v (-want +got):\n%s", err, diff)
	}
	for _, want := range []*storagev1.StorageClass{foreign, second, third} {
		assert.Check(t, is.DeepEqual(want, b.class(t, want.Name), asServed()...), "class")
	}
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
		if err := poll(t, func(context.Context) (bool, error) {
			c := b.condition(t)
			return c != nil && c.Status == status, nil
		}); err != nil {
			t.Fatalf("waiting for ManilaShareTypesServed=%s: %v", status, err)
		}
	}
	reported(opv1.ConditionFalse)
	assert.NilError(t, b.fake.Guest.StorageV1().StorageClasses().Delete(t.Context(), second.Name,
		metav1.DeleteOptions{}))
	reported(opv1.ConditionTrue)
}

// TestClassTheCacheDoesNotKnow creates a class between the read from the cache and the write.
func TestClassTheCacheDoesNotKnow(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	foreign := wanted("csi-manila-default", "other")
	react := func(clienttesting.Action) (bool, runtime.Object, error) {
		return false, nil, b.fake.Guest.Tracker().Add(foreign.DeepCopy())
	}
	b.fake.Guest.PrependReactor("create", "storageclasses", react)
	b.list([]string{"default"})
	if _, err := b.run(t); err == nil {
		t.Error("got no error")
	}
	assert.Check(t, is.DeepEqual(foreign, b.class(t, "csi-manila-default"), asServed()...), "class")
}

// TestCacheBehindOwnCreateIsNoFailure syncs again before the cache contains the class that the
// first sync created.
func TestCacheBehindOwnCreateIsNoFailure(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	react := func(clienttesting.Action) (bool, runtime.Object, error) {
		assert.Check(t, b.fake.Guest.Tracker().Add(wanted("csi-manila-default", "default")))
		return false, nil, nil
	}
	b.fake.Guest.PrependReactor("create", "storageclasses", react)
	b.list([]string{"default"})
	if _, err := b.run(t); err != nil {
		t.Errorf("the operator's own StorageClass is a failure: %v", err)
	}
}

func TestOneTypeFails(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	react := func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		class, isClass := create.GetObject().(*storagev1.StorageClass)
		if ok && isClass && class.Name == "csi-manila-b" {
			return true, nil, errors.New("no")
		}
		return false, nil, nil
	}
	b.fake.Guest.PrependReactor("create", "storageclasses", react)
	b.list([]string{"c", "b", "a"})
	_, err := b.run(t)
	if want := `StorageClass csi-manila-b of share type "b": no`; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	var names []string
	for _, class := range b.served(t) {
		names = append(names, class.Name)
	}
	slices.Sort(names)
	assert.Check(t, is.DeepEqual([]string{"csi-manila-a", "csi-manila-c"}, names), "classes")
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
	if got, err := b.run(t); err == nil || !strings.Contains(err.Error(), "Perhaps") || got != nil {
		t.Errorf("got %v, %v; want no write and an error about the unknown state", got, err)
	}
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

func TestClassesOfAnUnmanagedOperator(t *testing.T) {
	t.Parallel()
	for _, state := range []opv1.ManagementState{opv1.Unmanaged, opv1.Removed} {
		b := newClassBench(t, wanted("csi-manila-gone", "gone"))
		b.list([]string{"a"})
		b.fake.State.Set(t, csiDriver(state, opv1.RemovedStorageClass))
		b.writes(t)
	}
}
