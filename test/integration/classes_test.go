//go:build integration

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// defaultAnnotation marks the default StorageClass.
const defaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// wantedClass returns the expected StorageClass, which must not change between releases.
func wantedClass(name, shareType string) storagev1.StorageClass {
	const secret = "csi-manila-secrets"
	return storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Provisioner: driverName,
		Parameters: map[string]string{
			"type": shareType,
			"csi.storage.k8s.io/provisioner-secret-name":            secret,
			"csi.storage.k8s.io/provisioner-secret-namespace":       operandNamespace,
			"csi.storage.k8s.io/controller-expand-secret-name":      secret,
			"csi.storage.k8s.io/controller-expand-secret-namespace": operandNamespace,
			"csi.storage.k8s.io/node-stage-secret-name":             secret,
			"csi.storage.k8s.io/node-stage-secret-namespace":        operandNamespace,
			"csi.storage.k8s.io/node-publish-secret-name":           secret,
			"csi.storage.k8s.io/node-publish-secret-namespace":      operandNamespace,
		},
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: ptr.To(true),
	}
}

// withoutServerFields returns the class without the fields that the API server sets.
func withoutServerFields(class storagev1.StorageClass) storagev1.StorageClass {
	class.ObjectMeta = metav1.ObjectMeta{Name: class.Name, Annotations: class.Annotations}
	return class
}

// isClass returns nil if the class exists with this content.
func (e *env) isClass(want storagev1.StorageClass) error {
	classes, err := e.classes()
	if err != nil {
		return err
	}
	class, found := classes[want.Name]
	if !found {
		return fmt.Errorf("there is no StorageClass %s", want.Name)
	}
	if diff := cmp.Diff(want, withoutServerFields(class)); diff != "" {
		return fmt.Errorf("StorageClass %s differs (-want +got):\n%s", want.Name, diff)
	}
	return nil
}

// TestStorageClassIsComplete checks that the operator sets every field that the API server would
// default, so that it writes the class once. The name is lower-case, the parameter is the exact
// name of the share type. A private share type has no class.
func TestStorageClassIsComplete(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{
		Types: []string{"CephFS_Gold"},
		Cloud: simulator.Config{ShareTypes: []simulator.ShareType{{Name: "private", Private: true}}},
	})
	e.eventually(installed, func() error {
		return e.isClass(wantedClass("csi-manila-cephfs-gold", "CephFS_Gold"))
	})
	e.awaitAvailable()
	e.awaitNoWrites()
	e.expectNoWritesDuring(2)
	e.must(e.hasClasses("csi-manila-cephfs-gold"))
	if writes := e.requests(e.began, ofResource("storageclasses"), request.isWrite); len(writes) != 1 {
		t.Errorf("the class was written %d times, want once:\n%s", len(writes), list(writes))
	}
}

// TestStorageClassesFollowNewShareTypes checks that a new share type gets a class at the next
// probe, and that the class of a removed type stays.
func TestStorageClassesFollowNewShareTypes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	e.addType("gold")
	// A probe is due within a second, and one may be under way.
	e.eventually(3*time.Second, func() error {
		return e.hasClasses("csi-manila-default", "csi-manila-gold")
	})
	since := e.mark()
	e.must(e.cloud.RemoveShareType("gold"))
	e.awaitPolls(3)
	e.must(e.hasClasses("csi-manila-default", "csi-manila-gold"))
	e.restartOperator() // the new process does not know the type
	e.awaitPolls(2)
	e.must(e.hasClasses("csi-manila-default", "csi-manila-gold"))
	e.expectNone("the operator wrote StorageClasses",
		e.requests(since, ofResource("storageclasses"), request.isWrite))
}

// unusualTypes returns share types whose names collide or are invalid in Kubernetes.
func unusualTypes() []string {
	return []string{
		"foo_bar", "foo-bar", "Foo-Bar", "with space", "a:b", "a/b", "-leading", "trailing-", "dot.",
		"Üml", "日本語", "_",
		strings.Repeat("long", 63), strings.Repeat("long", 62) + "lang",
	}
}

// namesByType returns the names of the driver's classes by share type.
func (e *env) namesByType() map[string]string {
	e.t.Helper()
	classes, err := e.classes()
	e.must(err)
	names := map[string]string{}
	for name, class := range classes {
		shareType := class.Parameters["type"]
		if other, found := names[shareType]; found {
			e.t.Errorf("share type %q has two classes: %s, %s", shareType, other, name)
		}
		names[shareType] = name
	}
	return names
}

// TestStorageClassNamesAreStable checks that each share type gets a class with a unique valid name,
// which depends neither on the order of the list nor on the process, and that the operator then
// writes nothing.
func TestStorageClassNamesAreStable(t *testing.T) {
	t.Parallel()
	types := unusualTypes()
	e := newEnv(t, options{Types: types})
	e.awaitAvailable()
	e.eventually(soon, func() error {
		if classes, err := e.classes(); err != nil || len(classes) != len(types) {
			return fmt.Errorf("there are %d classes of %d share types (%w)", len(classes), len(types), err)
		}
		return nil
	})
	names := e.namesByType()
	got, want := slices.Sorted(maps.Keys(names)), slices.Sorted(slices.Values(types))
	if !slices.Equal(got, want) {
		t.Errorf("there are classes for %q, want %q", got, want)
	}
	if names["foo-bar"] != "csi-manila-foo-bar" {
		t.Errorf("the class of foo-bar is %s, want csi-manila-foo-bar", names["foo-bar"])
	}
	e.cloud.SetShareTypeOrder(simulator.Shuffled)
	e.awaitNoWrites()
	e.expectNoWritesDuring(5)

	// Create all classes again, in another order.
	e.stopOperator()
	e.cloud.SetShareTypeOrder(simulator.Reversed)
	e.must(e.guest.kube.StorageV1().StorageClasses().
		DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	e.startOperator()
	e.eventually(soon, func() error {
		if diff := cmp.Diff(names, e.namesByType()); diff != "" {
			return fmt.Errorf("names differ after a restart in another order (-before +after):\n%s", diff)
		}
		return nil
	})
	e.must(e.notDegraded())
}

func TestStorageClassNameIsKeptAfterCollision(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"foo_bar"}})
	e.eventually(installed, func() error { return e.hasClasses("csi-manila-foo-bar") })
	e.addType("foo-bar")
	e.eventually(soon, func() error {
		if names := e.namesByType(); len(names) != 2 || names["foo_bar"] != "csi-manila-foo-bar" {
			return fmt.Errorf("the classes are %v", names)
		}
		return nil
	})
	names := e.namesByType()
	e.restartOperator()
	e.awaitPolls(2)
	if diff := cmp.Diff(names, e.namesByType()); diff != "" {
		t.Errorf("names differ after a restart (-before +after):\n%s", diff)
	}
}

// TestStorageClassOfOtherProvisionerIsKept checks that a class of another provisioner with the same
// name blocks and degrades nothing.
func TestStorageClassOfOtherProvisionerIsKept(t *testing.T) {
	t.Parallel()
	foreign := storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "csi-manila-gold"},
		Provisioner: "example.com/other",
	}
	e := newEnv(t, options{Types: []string{"gold", "silver", "wood"}, Before: func(e *env) {
		e.createClass(&foreign)
	}})
	e.awaitAvailable()
	e.eventually(soon, func() error {
		if names := e.namesByType(); len(names) != 3 || names["silver"] != "csi-manila-silver" {
			return fmt.Errorf("the classes are %v, want three", names)
		}
		return nil
	})
	class, err := e.guest.kube.StorageV1().StorageClasses().
		Get(t.Context(), foreign.Name, metav1.GetOptions{})
	e.must(err)
	if class.Provisioner != foreign.Provisioner {
		t.Errorf("the other provisioner's class has provisioner %s", class.Provisioner)
	}
}

func (e *env) followsStorageClassState() {
	e.awaitAvailable()
	e.must(e.hasClasses("csi-manila-default"))

	e.setStorageClassState(opv1.UnmanagedStorageClass)
	e.awaitNoWrites()
	e.deleteClass("csi-manila-default")
	e.addType("gold")
	e.awaitPolls(3)
	e.must(e.hasClasses())

	e.setStorageClassState(opv1.ManagedStorageClass)
	e.eventually(soon, func() error { return e.hasClasses("csi-manila-default", "csi-manila-gold") })

	e.setStorageClassState(opv1.RemovedStorageClass)
	e.eventually(soon, func() error { return e.hasClasses() })
	e.addType("silver")
	e.awaitNoWrites()
	e.expectNoWritesDuring(2)
	e.must(e.hasClasses())

	e.setStorageClassState("")
	e.eventually(soon, func() error {
		return e.hasClasses("csi-manila-default", "csi-manila-gold", "csi-manila-silver")
	})
	e.must(e.available())
}

// setStorageClassState changes how the operator maintains StorageClasses.
func (e *env) setStorageClassState(state opv1.StorageClassStateName) {
	e.t.Helper()
	e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.StorageClassState = state })
}

// createClass creates a StorageClass as an administrator.
func (e *env) createClass(class *storagev1.StorageClass) *storagev1.StorageClass {
	e.t.Helper()
	created, err := e.guest.kube.StorageV1().StorageClasses().
		Create(e.ctx(), class, metav1.CreateOptions{})
	e.must(err)
	return created
}

func (e *env) deleteClass(name string) {
	e.t.Helper()
	e.delete(resource("storage.k8s.io", "storageclasses"), "", name)
}

func TestStorageClassIsRepaired(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"default", "gold"}})
	e.parts(
		part{"KeepsAdministratorsSettings", e.keepsAdministratorsSettings},
		part{"RepairsClasses", e.repairsClasses},
	)
}

// keepsAdministratorsSettings checks annotations, such as the default class, and mount options.
func (e *env) keepsAdministratorsSettings() {
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	want := map[string]storagev1.StorageClass{}
	for shareType, isDefault := range map[string]string{"default": "true", "gold": "false"} {
		class := wantedClass("csi-manila-"+shareType, shareType)
		class.Annotations = map[string]string{defaultAnnotation: isDefault, "example.com/note": "mine"}
		class.MountOptions = []string{"nfsvers=4.1"}
		want[class.Name] = class
		_, err := e.guest.kube.StorageV1().StorageClasses().
			Update(e.t.Context(), &class, metav1.UpdateOptions{})
		e.must(err)
	}
	e.awaitPolls(3)
	e.restartOperator()
	e.awaitPolls(2)
	for _, class := range want {
		e.must(e.isClass(class))
	}
	e.expectNone("the operator wrote StorageClasses",
		e.requests(since, ofResource("storageclasses"), request.isWrite))
}

// repairsClasses checks that a deleted class is created again and that one with other parameters is
// replaced, with the administrator's settings.
func (e *env) repairsClasses() {
	e.awaitAvailable()
	e.deleteClass("csi-manila-default")
	e.eventually(soon, func() error { return e.isClass(wantedClass("csi-manila-default", "default")) })

	e.stopOperator()
	e.deleteClass("csi-manila-gold")
	drifted := wantedClass("csi-manila-gold", "gold")
	drifted.Annotations = map[string]string{defaultAnnotation: "true"}
	drifted.MountOptions = []string{"nfsvers=4.1"}
	drifted.Parameters["csi.storage.k8s.io/provisioner-secret-name"] = "another-secret"
	e.createClass(&drifted)
	e.startOperator()
	repaired := wantedClass("csi-manila-gold", "gold")
	repaired.Annotations, repaired.MountOptions = drifted.Annotations, drifted.MountOptions
	e.eventually(soon, func() error { return e.isClass(repaired) })
	e.must(e.notDegraded())
}

func TestStorageClassIsMaintained(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.parts(
		part{"KeepsClassOfRefusedRepair", e.keepsClassOfRefusedRepair},
		part{"FollowsStorageClassState", e.followsStorageClassState},
	)
}

// keepsClassOfRefusedRepair checks that an outdated class stays, and a condition says why, while a
// policy refuses the repaired one.
func (e *env) keepsClassOfRefusedRepair() {
	const name, degraded = "csi-manila-default", "ManilaStorageClassControllerDegraded"
	e.awaitAvailable()
	e.setStorageClassState(opv1.UnmanagedStorageClass)
	e.awaitNoWrites()
	e.deleteClass(name)
	repaired := wantedClass(name, "default")
	repaired.Annotations, repaired.MountOptions = map[string]string{defaultAnnotation: "true"},
		[]string{"nfsvers=4.1"}
	outdated := repaired.DeepCopy()
	delete(outdated.Parameters, "csi.storage.k8s.io/controller-expand-secret-name")
	created := e.createClass(outdated)
	allow := e.denyOperatorWrites()
	since := e.mark()
	e.setStorageClassState(opv1.ManagedStorageClass)
	e.eventually(soon, func() error {
		return e.hasCondition(degraded, opv1.ConditionTrue, "SyncError")
	})
	if message := e.message(degraded); !strings.Contains(message, "keeps the existing one") ||
		!strings.Contains(message, "not today") {
		e.t.Errorf("the message is %q", message)
	}
	classes, err := e.classes()
	e.must(err)
	if classes[name].UID != created.UID {
		e.t.Errorf("the class was replaced: %+v", classes[name])
	}
	e.expectNone("the operator deleted a class that it may not create",
		e.requests(since, ofResource("storageclasses"), ofVerb("delete")))
	e.must(allow(e.ctx()))
	e.eventually(time.Minute, func() error { return e.isClass(repaired) })
	e.awaitAvailable()
}
