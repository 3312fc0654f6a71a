//go:build integration

package integration

import (
	"errors"
	"fmt"
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
		part{"KeepsClassOfRefusedRepair", e.keepsClassOfRefusedRepair},
		part{"FollowsStorageClassState", e.followsStorageClassState},
		part{"KeepsNames", e.keepsNames},
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
	writes := e.requests(e.began, ofResource("storageclasses"), request.isWrite, successful)
	if len(writes) != 2 {
		e.t.Errorf("the classes were written %d times, want once each:\n%s", len(writes), list(writes))
	}
}

// followsNewShareTypes checks that a new share type gets a class at the next probe, and that the
// class of a removed type stays.
func (e *env) followsNewShareTypes() {
	e.addType("silver")
	e.eventually(soon, func() error { return e.hasClasses(defaultClass, goldClass, silverClass) })
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

// namesByType returns the names of the driver's classes by share type.
func (e *env) namesByType() map[string]string {
	e.t.Helper()
	classes, err := e.classes()
	e.must(err)
	names := map[string]string{}
	for name, class := range classes {
		names[class.Parameters["type"]] = name
	}
	return names
}

// keepsNames checks that names that collide depend neither on the order nor on the process.
func (e *env) keepsNames() {
	// The operator may see the first type alone.
	for _, name := range []string{"foo-bar", "foo_bar", "Foo-Bar"} {
		e.addType(name)
	}
	var names map[string]string
	e.eventually(soon, func() error {
		names = e.namesByType()
		return checkEqual(8, len(names))
	})
	e.must(checkEqual("csi-manila-foo-bar", names["foo-bar"]))
	e.stopOperator()
	e.cloud.ReverseShareTypes()
	for _, name := range names {
		e.deleteClass(name)
	}
	e.startOperator()
	e.eventually(soon, func() error { return checkEqual(names, e.namesByType()) })
	e.eventually(soon, e.notDegraded)
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
	e.eventually(soon, e.available)
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
