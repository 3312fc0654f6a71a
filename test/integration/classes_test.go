//go:build integration

package integration

import (
	"errors"
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

const (
	// defaultAnnotation marks the default StorageClass.
	defaultAnnotation = "storageclass.kubernetes.io/is-default-class"

	// Classes of TestStorageClassesAreMaintained, and the share type of one.
	defaultClass = "csi-manila-default"
	goldClass    = "csi-manila-cephfs-gold"
	goldType     = "CephFS_Gold"
	silverClass  = "csi-manila-silver"
)

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

// TestStorageClassesAreMaintained begins with the share types default and CephFS_Gold, and with a
// private one.
func TestStorageClassesAreMaintained(t *testing.T) {
	t.Parallel()
	private := simulator.ShareType{Name: "private", Private: true}
	e := newEnv(t, options{
		Types: []string{"default", goldType},
		Cloud: simulator.Config{ShareTypes: []simulator.ShareType{private}},
	})
	e.parts(
		part{"CreatesCompleteClasses", e.createsCompleteClasses},
		part{"FollowsNewShareTypes", e.followsNewShareTypes},
		part{"KeepsAdministratorsSettings", e.keepsAdministratorsSettings},
		part{"RepairsClasses", e.repairsClasses},
		part{"KeepsClassOfRefusedRepair", e.keepsClassOfRefusedRepair},
		part{"FollowsStorageClassState", e.followsStorageClassState},
	)
}

// createsCompleteClasses checks that the operator sets every field that the API server would
// default, so that it writes each class once. The name is lower-case, the parameter is the exact
// name of the share type. A private share type has no class.
func (e *env) createsCompleteClasses() {
	e.eventually(installed, func() error {
		return errors.Join(e.isClass(wantedClass(defaultClass, "default")),
			e.isClass(wantedClass(goldClass, goldType)))
	})
	e.awaitAvailable()
	e.awaitNoWrites()
	e.expectNoWritesDuring(2)
	e.must(e.hasClasses(defaultClass, goldClass))
	writes := e.requests(e.began, ofResource("storageclasses"), request.isWrite)
	if len(writes) != 2 {
		e.t.Errorf("the classes were written %d times, want once each:\n%s", len(writes), list(writes))
	}
}

// followsNewShareTypes checks that a new share type gets a class at the next probe, and that the
// class of a removed type stays.
func (e *env) followsNewShareTypes() {
	e.addType("silver")
	// A probe is due within a second, and one may be under way.
	e.eventually(3*time.Second, func() error {
		return e.hasClasses(defaultClass, goldClass, silverClass)
	})
	since := e.mark()
	e.must(e.cloud.RemoveShareType("silver"))
	gone := func() error {
		return e.hasCondition("ManilaShareTypesServed", opv1.ConditionFalse, "PartlyServed",
			`share type "silver" is gone`)
	}
	e.eventually(soon, gone)
	e.awaitPolls(3)
	e.must(e.hasClasses(defaultClass, goldClass, silverClass))
	e.restartOperator() // the new process does not know the type
	e.awaitPolls(2)
	e.must(errors.Join(e.hasClasses(defaultClass, goldClass, silverClass), gone()))
	e.expectNone("the operator wrote StorageClasses",
		e.requests(since, ofResource("storageclasses"), request.isWrite))
}

// unusualTypes returns share types whose names collide or are invalid in Kubernetes.
func unusualTypes() []string {
	return []string{
		"early_type", "taken",
		"foo_bar", "foo-bar", "Foo-Bar", "with space", "a:b", "a/b", "-leading", "trailing-", "dot.",
		"Üml", "日本語", "_",
		strings.Repeat("long", 63), strings.Repeat("long", 62) + "lang",
	}
}

// hasClassesOf returns nil if exactly these share types have classes.
func (e *env) hasClassesOf(types []string) error {
	return checkEqual(slices.Sorted(slices.Values(types)), slices.Sorted(maps.Keys(e.namesByType())))
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
// writes nothing. A class of another provisioner with the same name blocks and degrades nothing.
func TestStorageClassNamesAreStable(t *testing.T) {
	t.Parallel()
	types := unusualTypes()
	var foreign *storagev1.StorageClass
	e := newEnv(t, options{Types: types, Before: func(e *env) {
		foreign = e.createClass(&storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "csi-manila-taken"},
			Provisioner: "example.com/other",
		})
	}})
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasClassesOf(types) })
	names := e.namesByType()
	for shareType, want := range map[string]string{
		"foo-bar": "csi-manila-foo-bar", "early_type": "csi-manila-early-type",
	} {
		if names[shareType] != want {
			t.Errorf("the class of %s is %s, want %s", shareType, names[shareType], want)
		}
	}
	e.cloud.SetShareTypeOrder(simulator.Shuffled)
	e.awaitNoWrites()
	e.expectNoWritesDuring(5)

	// Create all classes again, in another order.
	e.stopOperator()
	e.cloud.SetShareTypeOrder(simulator.Reversed)
	for _, name := range names {
		e.deleteClass(name)
	}
	e.startOperator()
	e.eventually(soon, func() error { return checkEqual(names, e.namesByType()) })
	e.must(e.notDegraded())

	// A type that is added later has the name of an existing class.
	e.addType("early-type")
	e.eventually(soon, func() error { return e.hasClassesOf(append(types, "early-type")) })
	later := e.namesByType()
	e.restartOperator()
	e.awaitPolls(2)
	e.must(checkEqual(later, e.namesByType()))
	delete(later, "early-type")
	e.must(checkEqual(names, later))

	now, err := e.guest.kube.StorageV1().StorageClasses().
		Get(t.Context(), foreign.Name, metav1.GetOptions{})
	e.must(err)
	e.must(checkEqual(foreign, now))
}

func (e *env) followsStorageClassState() {
	e.awaitAvailable()
	e.must(e.hasClasses(defaultClass, goldClass, silverClass))

	e.setStorageClassState(opv1.UnmanagedStorageClass)
	e.awaitNoWrites()
	e.deleteClass(defaultClass)
	e.addType("silver")
	e.addType("wood")
	e.awaitPolls(3)
	e.must(e.hasClasses(goldClass, silverClass))

	all := []string{defaultClass, goldClass, silverClass, "csi-manila-wood"}
	e.setStorageClassState(opv1.ManagedStorageClass)
	e.eventually(soon, func() error { return e.hasClasses(all...) })

	e.setStorageClassState(opv1.RemovedStorageClass)
	e.eventually(soon, func() error { return e.hasClasses() })
	e.addType("stone")
	e.awaitNoWrites()
	e.expectNoWritesDuring(2)
	e.must(e.hasClasses())

	e.setStorageClassState("")
	e.eventually(soon, func() error { return e.hasClasses(append(all, "csi-manila-stone")...) })
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

// keepsAdministratorsSettings checks annotations, such as the default class, and mount options.
func (e *env) keepsAdministratorsSettings() {
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	want := []storagev1.StorageClass{
		wantedClass(defaultClass, "default"), wantedClass(goldClass, goldType),
	}
	for i, isDefault := range []string{"true", "false"} {
		class := &want[i]
		class.Annotations = map[string]string{defaultAnnotation: isDefault, "example.com/note": "mine"}
		class.MountOptions = []string{"nfsvers=4.1"}
		_, err := e.guest.kube.StorageV1().StorageClasses().
			Update(e.ctx(), class.DeepCopy(), metav1.UpdateOptions{})
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
	e.deleteClass(defaultClass)
	e.eventually(soon, func() error { return e.isClass(wantedClass(defaultClass, "default")) })

	e.stopOperator()
	e.deleteClass(goldClass)
	drifted := wantedClass(goldClass, goldType)
	drifted.Annotations = map[string]string{defaultAnnotation: "true"}
	drifted.MountOptions = []string{"nfsvers=4.1"}
	drifted.Parameters["csi.storage.k8s.io/provisioner-secret-name"] = "another-secret"
	e.createClass(&drifted)
	e.startOperator()
	repaired := wantedClass(goldClass, goldType)
	repaired.Annotations, repaired.MountOptions = drifted.Annotations, drifted.MountOptions
	e.eventually(soon, func() error { return e.isClass(repaired) })
	e.must(e.notDegraded())
}

// keepsClassOfRefusedRepair checks that an outdated class stays, and a condition says why, while a
// policy refuses the repaired one.
func (e *env) keepsClassOfRefusedRepair() {
	const degraded = "ManilaStorageClassControllerDegraded"
	e.awaitAvailable()
	e.setStorageClassState(opv1.UnmanagedStorageClass)
	e.awaitNoWrites()
	e.deleteClass(defaultClass)
	repaired := wantedClass(defaultClass, "default")
	repaired.Annotations, repaired.MountOptions = map[string]string{defaultAnnotation: "true"},
		[]string{"nfsvers=4.1"}
	outdated := repaired.DeepCopy()
	delete(outdated.Parameters, "csi.storage.k8s.io/controller-expand-secret-name")
	created := e.createClass(outdated)
	allow := e.denyOperatorWrites()
	since := e.mark()
	e.setStorageClassState(opv1.ManagedStorageClass)
	e.eventually(soon, func() error {
		return e.hasCondition(degraded, opv1.ConditionTrue, "SyncError",
			"keeps the existing one", "not today")
	})
	classes, err := e.classes()
	e.must(err)
	if classes[defaultClass].UID != created.UID {
		e.t.Errorf("the class was replaced: %+v", classes[defaultClass])
	}
	e.expectNone("the operator deleted a class that it may not create",
		e.requests(since, ofResource("storageclasses"), ofVerb("delete")))
	e.must(allow(e.ctx()))
	e.eventually(time.Minute, func() error { return e.isClass(repaired) })
	e.awaitAvailable()
}
