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

// defaultAnnotation marks the class that claims without a class get.
const defaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// wantedClass is the class that must not change from release to release (contract.md 3.7).
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

// bare is the class without what the API server adds.
func withoutServerFields(class storagev1.StorageClass) storagev1.StorageClass {
	class.ObjectMeta = metav1.ObjectMeta{Name: class.Name, Annotations: class.Annotations}
	return class
}

// isClass returns nil if the class is there and as wanted.
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

// TestClassContent: a class has all that the driver needs and each field that the API server would default. The name is in
// lower case, the parameter has the type's own name (faults 14 to 16).
func TestClassContent(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"CephFS_Gold"}})
	e.eventually(installed, func() error { return e.isClass(wantedClass("csi-manila-cephfs-gold", "CephFS_Gold")) })
	e.awaitAvailable()
	e.awaitNoWrites()
	e.expectNoWritesDuring(2)
	if writes := e.requests(e.began, ofResource("storageclasses"), request.isWrite); len(writes) != 1 {
		t.Errorf("one class is %d writes:\n%s", len(writes), list(writes))
	}
}

// TestShareTypesComeAndGo: a new share type has its class at the next look; the class of one that went away stays.
func TestShareTypesComeAndGo(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	e.addType("gold")
	// A look is due within a second, and one may be under way.
	e.eventually(3*time.Second, func() error { return e.hasClasses("csi-manila-default", "csi-manila-gold") })
	since := e.mark()
	e.must(e.cloud.RemoveShareType(t.Context(), "gold"))
	e.awaitPolls(3)
	e.must(e.hasClasses("csi-manila-default", "csi-manila-gold"))
	e.restartOperator() // a new process has never heard of the type
	e.awaitPolls(2)
	e.must(e.hasClasses("csi-manila-default", "csi-manila-gold"))
	e.expectNone("classes were written", e.requests(since, ofResource("storageclasses"), request.isWrite))
}

// TestPrivateShareTypes: types that the project does not see get no class.
func TestPrivateShareTypes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Cloud: simulator.Config{ShareTypes: []simulator.ShareType{{Name: "public"}, {Name: "private", Private: true}}}})
	e.awaitAvailable()
	e.must(e.hasClasses("csi-manila-public"))
}

// oddTypes are share types whose names collide, or are no names of Kubernetes.
func unusualTypes() []string {
	return []string{
		"foo_bar", "foo-bar", "Foo-Bar", "with space", "a:b", "a/b", "-leading", "trailing-", "dot.", "Üml", "日本語", "_",
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

// TestNames: each share type has a class with a valid name of its own, whatever the type is called; the name does not depend on
// the order in which types are listed, nor on the process; and once they are there, nothing is written (1.11-6).
func TestNames(t *testing.T) {
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
	if got, want := slices.Sorted(maps.Keys(names)), slices.Sorted(slices.Values(types)); !slices.Equal(got, want) {
		t.Errorf("there are classes for %q, want %q", got, want)
	}
	if names["foo-bar"] != "csi-manila-foo-bar" {
		t.Errorf("the class of foo-bar is %s, want the name that nothing forbids", names["foo-bar"])
	}
	e.must(e.cloud.SetShareTypeOrder(t.Context(), simulator.Shuffled))
	e.awaitNoWrites()
	e.expectNoWritesDuring(5)

	// The same from nothing, in another order.
	e.stopOperator()
	e.must(e.cloud.SetShareTypeOrder(t.Context(), simulator.Reversed))
	e.must(e.guest.kube.StorageV1().StorageClasses().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	e.startOperator()
	e.eventually(soon, func() error {
		if diff := cmp.Diff(names, e.namesByType()); diff != "" {
			return fmt.Errorf("names differ after a restart in another order (-before +after):\n%s", diff)
		}
		return nil
	})
	e.must(e.notDegraded())
}

// TestLaterCollision: a type whose name another has got already takes none away.
func TestLaterCollision(t *testing.T) {
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

// TestForeignClass: a class of another provisioner that has the name is left alone, and blocks and degrades nothing.
func TestForeignClass(t *testing.T) {
	t.Parallel()
	foreign := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "csi-manila-gold"}, Provisioner: "example.com/other"}
	e := newEnv(t, options{Types: []string{"gold", "silver", "wood"}, Before: func(e *env) {
		_, err := e.guest.kube.StorageV1().StorageClasses().Create(e.ctx(), &foreign, metav1.CreateOptions{})
		e.must(err)
	}})
	e.awaitAvailable()
	e.eventually(soon, func() error {
		if names := e.namesByType(); len(names) != 3 || names["silver"] != "csi-manila-silver" {
			return fmt.Errorf("the classes are %v, want three", names)
		}
		return nil
	})
	class, err := e.guest.kube.StorageV1().StorageClasses().Get(t.Context(), foreign.Name, metav1.GetOptions{})
	e.must(err)
	if class.Provisioner != foreign.Provisioner {
		t.Errorf("the foreign class now has provisioner %s", class.Provisioner)
	}
}

// TestStorageClassState: spec.storageClassState of the ClusterCSIDriver is honoured (fault 23).
func TestStorageClassState(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	set := func(state opv1.StorageClassStateName) {
		e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.StorageClassState = state })
	}
	e.awaitAvailable()
	e.must(e.hasClasses("csi-manila-default"))

	set(opv1.UnmanagedStorageClass)
	e.awaitNoWrites()
	e.deleteClass("csi-manila-default")
	e.addType("gold")
	e.awaitPolls(3)
	e.must(e.hasClasses())

	set(opv1.ManagedStorageClass)
	e.eventually(soon, func() error { return e.hasClasses("csi-manila-default", "csi-manila-gold") })

	set(opv1.RemovedStorageClass)
	e.eventually(soon, func() error { return e.hasClasses() })
	e.addType("silver")
	e.awaitNoWrites()
	e.expectNoWritesDuring(2)
	e.must(e.hasClasses())

	set("")
	e.eventually(soon, func() error { return e.hasClasses("csi-manila-default", "csi-manila-gold", "csi-manila-silver") })
	e.must(e.available())
}

func (e *env) deleteClass(name string) {
	e.t.Helper()
	e.must(e.guest.kube.StorageV1().StorageClasses().Delete(e.ctx(), name, metav1.DeleteOptions{}))
}

// TestAdministratorsChoices: the default-class annotation and the mount options are the administrator's (fault 22).
func TestAdministratorsChoices(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"default", "gold"}})
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	want := map[string]storagev1.StorageClass{}
	for shareType, isDefault := range map[string]string{"default": "true", "gold": "false"} {
		class := wantedClass("csi-manila-"+shareType, shareType)
		class.Annotations = map[string]string{defaultAnnotation: isDefault, "example.com/note": "mine"}
		class.MountOptions = []string{"nfsvers=4.1"}
		want[class.Name] = class
		_, err := e.guest.kube.StorageV1().StorageClasses().Update(t.Context(), &class, metav1.UpdateOptions{})
		e.must(err)
	}
	e.awaitPolls(3)
	e.restartOperator()
	e.awaitPolls(2)
	for _, class := range want {
		e.must(e.isClass(class))
	}
	e.expectNone("classes were written", e.requests(since, ofResource("storageclasses"), request.isWrite))
}

// TestRepairedClasses: a class that was deleted comes back, one with other parameters is replaced; what is the administrator's
// stays.
func TestRepairedClasses(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"default", "gold"}})
	e.awaitAvailable()
	e.deleteClass("csi-manila-default")
	e.eventually(soon, func() error { return e.isClass(wantedClass("csi-manila-default", "default")) })

	e.stopOperator()
	e.deleteClass("csi-manila-gold")
	drifted := wantedClass("csi-manila-gold", "gold")
	drifted.Annotations = map[string]string{defaultAnnotation: "true"}
	drifted.MountOptions = []string{"nfsvers=4.1"}
	drifted.Parameters["csi.storage.k8s.io/provisioner-secret-name"] = "another-secret"
	_, err := e.guest.kube.StorageV1().StorageClasses().Create(t.Context(), &drifted, metav1.CreateOptions{})
	e.must(err)
	e.startOperator()
	mended := wantedClass("csi-manila-gold", "gold")
	mended.Annotations, mended.MountOptions = drifted.Annotations, drifted.MountOptions
	e.eventually(soon, func() error { return e.isClass(mended) })
	e.must(e.notDegraded())
}

// TestRefusedRepairKeepsTheClass: while a policy refuses the repaired class, the outdated one stays as it is and a condition says
// why; afterwards the class is repaired and contains what the administrator had set.
func TestRefusedRepairKeepsTheClass(t *testing.T) {
	t.Parallel()
	const name, degraded = "csi-manila-default", "ManilaStorageClassControllerDegraded"
	e := newEnv(t, options{})
	e.awaitAvailable()
	state := func(s opv1.StorageClassStateName) {
		e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.StorageClassState = s })
	}
	state(opv1.UnmanagedStorageClass)
	e.awaitNoWrites()
	e.deleteClass(name)
	repaired := wantedClass(name, "default")
	repaired.Annotations, repaired.MountOptions = map[string]string{defaultAnnotation: "true"}, []string{"nfsvers=4.1"}
	outdated := repaired.DeepCopy()
	delete(outdated.Parameters, "csi.storage.k8s.io/controller-expand-secret-name")
	created, err := e.guest.kube.StorageV1().StorageClasses().Create(e.ctx(), outdated, metav1.CreateOptions{})
	e.must(err)
	allow := e.denyOperatorWrites()
	since := e.mark()
	state(opv1.ManagedStorageClass)
	e.eventually(soon, func() error { return e.hasCondition(degraded, opv1.ConditionTrue, "SyncError") })
	if message := e.message(degraded); !strings.Contains(message, "the existing one stays as it is") || !strings.Contains(message, "not today") {
		t.Errorf("the message is %q", message)
	}
	classes, err := e.classes()
	e.must(err)
	if classes[name].UID != created.UID {
		t.Errorf("the class is not the one that there was: %+v", classes[name])
	}
	e.expectNone("the operator deleted what it may not create", e.requests(since, ofResource("storageclasses"), ofVerb("delete")))
	e.must(allow(e.ctx()))
	e.eventually(time.Minute, func() error { return e.isClass(repaired) })
	e.awaitAvailable()
}
