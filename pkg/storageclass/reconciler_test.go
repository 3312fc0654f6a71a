package storageclass

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// fixture is a Reconciler with a fake API server, and a cache that contains only what a test adds.
type fixture struct {
	*Reconciler
	api   *fake.Clientset
	cache cache.Indexer
	clock *clocktesting.FakePassiveClock
}

func newFixture(t *testing.T, served ...*storagev1.StorageClass) *fixture {
	t.Helper()
	f := &fixture{
		api:   fake.NewClientset(),
		cache: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
	}
	for _, class := range served {
		assert.NilError(t, f.api.Tracker().Add(class.DeepCopy()))
	}
	lister := storagelisters.NewStorageClassLister(f.cache)
	f.Reconciler = NewReconciler(f.api, lister, events.NewInMemoryRecorder("test", f.clock))
	f.Reconciler.clock = f.clock
	return f
}

func (f *fixture) reconcile(t *testing.T) error {
	t.Helper()
	return f.Reconcile(t.Context(), required(), func(class *storagev1.StorageClass) bool {
		return class.Provisioner == required().Provisioner
	})
}

// expectClass compares the class in the API server.
func (f *fixture) expectClass(t *testing.T, want *storagev1.StorageClass) {
	t.Helper()
	got, err := f.api.StorageV1().StorageClasses().Get(t.Context(), "gold", metav1.GetOptions{})
	assert.NilError(t, err)
	options := []cmp.Option{
		cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields"),
		cmpopts.IgnoreTypes(metav1.TypeMeta{}), cmpopts.EquateEmpty(),
	}
	assert.Check(t, is.DeepEqual(want, got, options...), "StorageClass")
}

// verbs returns the writes since the last call. A dry run is "try".
func (f *fixture) verbs() []string {
	var verbs []string
	for _, action := range f.api.Actions() {
		create, ok := action.(clienttesting.CreateActionImpl)
		switch {
		case action.GetVerb() == "get":
		case ok && len(create.CreateOptions.DryRun) > 0:
			verbs = append(verbs, "try")
		default:
			verbs = append(verbs, action.GetVerb())
		}
	}
	f.api.ClearActions()
	return verbs
}

func (f *fixture) expectWrites(t *testing.T, want ...string) {
	t.Helper()
	assert.Check(t, is.DeepEqual(want, f.verbs()), "writes")
}

// rejectCreates makes the API server reject creates that match.
func (f *fixture) rejectCreates(
	match func(create clienttesting.CreateActionImpl, class *storagev1.StorageClass) bool,
) {
	f.api.PrependReactor("create", "storageclasses",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			create := action.(clienttesting.CreateActionImpl)
			class := create.GetObject().(*storagev1.StorageClass)
			return match(create, class), nil, apierrors.NewForbidden(
				storagev1.Resource("storageclasses"), class.Name, errors.New("by policy"))
		})
}

func required() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "gold",
			Annotations: map[string]string{choice.DefaultAnnotation: "true"},
		},
		Provisioner:          "csi.example.com",
		Parameters:           map[string]string{"type": "gold"},
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: ptr.To(true),
	}
}

// customized returns the required class with everything that an administrator may add.
func customized() *storagev1.StorageClass {
	class := required()
	class.Annotations = map[string]string{
		choice.DefaultAnnotation: "false", "example.com/note": "mine",
	}
	class.Labels = map[string]string{"example.com/team": "a"}
	class.MountOptions = []string{"nfsvers=4.1"}
	zone := corev1.TopologySelectorLabelRequirement{Key: "zone", Values: []string{"a"}}
	class.AllowedTopologies = []corev1.TopologySelectorTerm{
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{zone}},
	}
	return class
}

// outdated returns the customized class with other parameters, which are immutable.
func outdated() *storagev1.StorageClass {
	class := customized()
	class.Parameters = map[string]string{"type": "gold", "old": "yes"}
	return class
}

func isRepaired(class *storagev1.StorageClass) bool { return len(class.Parameters) == 1 }

func TestReconcileCreatesAndRepairs(t *testing.T) {
	t.Parallel()
	unexpandable := customized()
	unexpandable.AllowVolumeExpansion = nil
	type served = []*storagev1.StorageClass
	for name, test := range map[string]struct {
		served served
		want   *storagev1.StorageClass
		writes []string
	}{
		"missing":         {nil, required(), []string{"create"}},
		"good":            {served{customized()}, customized(), nil},
		"mutable field":   {served{unexpandable}, customized(), []string{"update"}},
		"immutable field": {served{outdated()}, customized(), []string{"try", "delete", "create"}},
	} {
		t.Log(name)
		f := newFixture(t, test.served...)
		assert.NilError(t, f.reconcile(t))
		f.expectWrites(t, test.writes...)
		f.expectClass(t, test.want)
	}
}

func TestOutdatedCacheCausesNoError(t *testing.T) {
	t.Parallel()
	created, updated, raced := newFixture(t), newFixture(t, customized()), newFixture(t)
	for range 2 { // the cache does not contain the created class
		assert.NilError(t, created.reconcile(t))
	}
	created.expectWrites(t, "create")
	assert.NilError(t, updated.cache.Add(outdated())) // the class before its update
	assert.NilError(t, updated.reconcile(t))
	updated.expectWrites(t)
	raced.api.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		assert.Check(t, raced.api.Tracker().Add(customized())) // created between two requests
		return false, nil, nil
	})
	assert.NilError(t, raced.reconcile(t))
	raced.expectClass(t, customized())
}

func TestClassOfAnotherOwnerIsPreserved(t *testing.T) {
	t.Parallel()
	foreign := customized()
	foreign.Provisioner = "other.example.com"
	f := newFixture(t, foreign)
	assert.Check(t, is.ErrorIs(f.reconcile(t), ErrNameTaken))
	f.expectWrites(t)
	f.expectClass(t, foreign)
}

func TestRejectedDryRunDeletesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, outdated())
	f.rejectCreates(func(_ clienttesting.CreateActionImpl, class *storagev1.StorageClass) bool {
		return isRepaired(class)
	})
	assert.Check(t, apierrors.IsForbidden(f.reconcile(t)))
	f.expectWrites(t, "try")
	f.expectClass(t, outdated())
}

func TestRefusedUpdateIsAnError(t *testing.T) {
	t.Parallel()
	class := required()
	class.AllowVolumeExpansion = new(!*class.AllowVolumeExpansion)
	f := newFixture(t, class)
	refused := errors.New("refused")
	f.api.PrependReactor("update", "storageclasses",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refused })
	assert.Check(t, is.ErrorIs(f.reconcile(t), refused))
}

// The API server accepts the repaired class only in a dry run.
func TestRejectedRepairRestoresTheOldClass(t *testing.T) {
	t.Parallel()
	f := newFixture(t, outdated())
	f.rejectCreates(func(create clienttesting.CreateActionImpl, class *storagev1.StorageClass) bool {
		return isRepaired(class) && len(create.CreateOptions.DryRun) == 0
	})
	cycle := []string{"try", "delete", "create", "create"}
	for _, step := range []struct {
		later  time.Duration
		writes []string
	}{{0, cycle}, {time.Minute, nil}, {replaceBackoff, cycle}} {
		f.clock.SetTime(f.clock.Now().Add(step.later))
		assert.Check(t, apierrors.IsForbidden(f.reconcile(t)))
		f.expectWrites(t, step.writes...)
		f.expectClass(t, outdated())
	}
}

// The API server fails between the deletion and the creation.
func TestDeletedClassIsRecreatedWithItsContent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, outdated())
	failing := true
	f.rejectCreates(func(create clienttesting.CreateActionImpl, _ *storagev1.StorageClass) bool {
		return failing && len(create.CreateOptions.DryRun) == 0
	})
	assert.Assert(t, f.reconcile(t) != nil)
	f.expectWrites(t, "try", "delete", "create", "create")
	failing = false
	assert.NilError(t, f.reconcile(t))
	f.expectWrites(t, "create")
	f.expectClass(t, customized())
}

// The class would be missing again and again.
func TestFightAboutAClassPauses(t *testing.T) {
	t.Parallel()
	changed := required()
	changed.Parameters = map[string]string{"type": "other"}
	f := newFixture(t, changed)
	for range maxReplacements {
		assert.NilError(t, f.reconcile(t))
		f.expectWrites(t, "try", "delete", "create")
		assert.NilError(t, f.api.Tracker().Update(
			storagev1.SchemeGroupVersion.WithResource("storageclasses"), changed.DeepCopy(), ""))
	}
	assert.Check(t, is.ErrorContains(f.reconcile(t), "recreated it 3 times within 10m0s"))
	f.expectWrites(t)
	f.clock.SetTime(f.clock.Now().Add(replaceBackoff))
	assert.NilError(t, f.reconcile(t))
	f.expectWrites(t, "try", "delete", "create")
}

func TestRepairWaitsForFinalizers(t *testing.T) {
	t.Parallel()
	held := outdated()
	held.Finalizers, held.DeletionTimestamp = []string{"example.com/hold"}, ptr.To(metav1.Unix(0, 0))
	f := newFixture(t, held)
	assert.Check(t, f.reconcile(t) != nil, "no error about a StorageClass that is being deleted")
	f.expectWrites(t)
	resource := storagev1.SchemeGroupVersion.WithResource("storageclasses")
	assert.NilError(t, f.api.Tracker().Delete(resource, "", "gold"))
	assert.NilError(t, f.reconcile(t))
	f.expectClass(t, customized())
}

// cancellingAPI cancels a context when it deletes a class. A create with a done context fails.
type cancellingAPI struct {
	storageclient.StorageClassInterface
	stop func()
}

func (s cancellingAPI) Delete(ctx context.Context, name string, options metav1.DeleteOptions,
) error {
	s.stop()
	return s.StorageClassInterface.Delete(ctx, name, options)
}

func (s cancellingAPI) Create(ctx context.Context, class *storagev1.StorageClass,
	options metav1.CreateOptions,
) (*storagev1.StorageClass, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.StorageClassInterface.Create(ctx, class, options)
}

func TestShutdownDoesNotInterruptARepair(t *testing.T) {
	t.Parallel()
	f := newFixture(t, outdated())
	ctx, cancel := context.WithCancel(t.Context())
	f.Reconciler.api = cancellingAPI{f.Reconciler.api, cancel}
	isOurs := func(*storagev1.StorageClass) bool { return true }
	assert.NilError(t, f.Reconcile(ctx, required(), isOurs))
	f.expectClass(t, customized())
}

// The tests of the driver plugins cover the rest of the controller.

func TestListWakesOnlyOnChange(t *testing.T) {
	t.Parallel()
	woken := 0
	c := &Controller{}
	_, _ = c.changed.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) { woken++ },
	})
	list := func(names ...string) {
		var types []openstack.Type
		for _, name := range names {
			types = append(types, openstack.Type{Name: name})
		}
		c.SetTypes(types)
	}
	for _, types := range [][]string{{"a", "b"}, {"b", "a"}, {"b", "a", "a"}} {
		list(types...)
	}
	assert.Check(t, is.Equal(woken, 1), "by one list in three spellings")
	list()
	assert.Check(t, is.Equal(woken, 2), "when the types are gone")
}

// In the state Removed the operator deletes the additional StorageClasses, and no others.
func TestAdditionalClassHasTheNameAndTypeOfAChoice(t *testing.T) {
	t.Parallel()
	config := &choice.Config{Classes: []choice.NamedClass{{Type: "gold", Name: "mine"}}}
	c := &Controller{Names: classes.Names{Provisioner: "manila.csi.openstack.org"}}
	for _, one := range []struct {
		name, shareType string
		want            bool
	}{{"mine", "gold", true}, {"mine", "silver", false}, {"other", "gold", false}} {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: one.name}, Provisioner: c.Provisioner,
			Parameters: map[string]string{classes.TypeParameter: one.shareType},
		}
		assert.Check(t, is.Equal(c.isAdditional(config, class), one.want), "%+v", one)
	}
}
