package storageclass

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
)

// bench is a keeper with a cache that contains only what a test puts into it, and an API server.
type bench struct {
	*Keeper
	api   *fake.Clientset
	cache cache.Indexer
	clock *clocktesting.FakePassiveClock
}

func newBench(t *testing.T, served ...*storagev1.StorageClass) *bench {
	t.Helper()
	b := &bench{
		api:   fake.NewClientset(),
		cache: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
	}
	for _, class := range served {
		if err := b.api.Tracker().Add(class.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	b.Keeper = NewKeeper(b.api, storagelisters.NewStorageClassLister(b.cache), events.NewInMemoryRecorder("test", b.clock))
	b.Keeper.clock = b.clock
	return b
}

func (b *bench) keep(t *testing.T) error {
	t.Helper()
	return b.Keep(t.Context(), required(), func(class *storagev1.StorageClass) bool { return class.Provisioner == required().Provisioner })
}

// has compares the class in the API server.
func (b *bench) has(t *testing.T, want *storagev1.StorageClass) {
	t.Helper()
	got, err := b.api.StorageV1().StorageClasses().Get(t.Context(), "gold", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	options := []cmp.Option{cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields"), cmpopts.IgnoreTypes(metav1.TypeMeta{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("StorageClass (-want +got):\n%s", diff)
	}
}

// verbs are the writes since the last call; a dry run is "try".
func (b *bench) verbs() []string {
	var verbs []string
	for _, action := range b.api.Actions() {
		create, ok := action.(clienttesting.CreateActionImpl)
		switch {
		case action.GetVerb() == "get":
		case ok && len(create.CreateOptions.DryRun) > 0:
			verbs = append(verbs, "try")
		default:
			verbs = append(verbs, action.GetVerb())
		}
	}
	b.api.ClearActions()
	return verbs
}

func (b *bench) wrote(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, b.verbs()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// refuse lets the API server refuse creates that match.
func (b *bench) refuse(match func(create clienttesting.CreateActionImpl, class *storagev1.StorageClass) bool) {
	b.api.PrependReactor("create", "storageclasses", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		if class := create.GetObject().(*storagev1.StorageClass); match(create, class) {
			return true, nil, apierrors.NewForbidden(storagev1.Resource("storageclasses"), class.Name, errors.New("by policy"))
		}
		return false, nil, nil
	})
}

func required() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: "gold", Annotations: map[string]string{DefaultAnnotation: "true"}},
		Provisioner:          "csi.example.com",
		Parameters:           map[string]string{"type": "gold"},
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: ptr.To(true),
	}
}

// administered is the required class with everything that an administrator may add.
func administered() *storagev1.StorageClass {
	class := required()
	class.Annotations = map[string]string{DefaultAnnotation: "false", "example.com/note": "mine"}
	class.Labels = map[string]string{"example.com/team": "a"}
	class.MountOptions = []string{"nfsvers=4.1"}
	class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: "zone", Values: []string{"a"}},
	}}}
	return class
}

// outdated is administered with other parameters, which the API server does not update.
func outdated() *storagev1.StorageClass {
	class := administered()
	class.Parameters = map[string]string{"type": "gold", "old": "yes"}
	return class
}

func isRepaired(class *storagev1.StorageClass) bool { return len(class.Parameters) == 1 }

func TestKeepCreatesAndRepairs(t *testing.T) {
	t.Parallel()
	unexpandable := administered()
	unexpandable.AllowVolumeExpansion = nil
	for name, test := range map[string]struct {
		served *storagev1.StorageClass
		want   *storagev1.StorageClass
		writes []string
	}{
		"missing":         {nil, required(), []string{"create"}},
		"good":            {administered(), administered(), nil},
		"mutable field":   {unexpandable, administered(), []string{"update"}},
		"immutable field": {outdated(), administered(), []string{"try", "delete", "create"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if test.served != nil {
				b = newBench(t, test.served)
			}
			if err := b.keep(t); err != nil {
				t.Fatal(err)
			}
			b.wrote(t, test.writes...)
			b.has(t, test.want)
		})
	}
}

func TestCacheBehindOwnWriteIsNoFailure(t *testing.T) {
	t.Parallel()
	t.Run("cache without the created class", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for range 2 {
			if err := b.keep(t); err != nil {
				t.Fatal(err)
			}
		}
		b.wrote(t, "create")
	})
	t.Run("cache with the class before its update", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, administered())
		if err := b.cache.Add(outdated()); err != nil {
			t.Fatal(err)
		}
		if err := b.keep(t); err != nil {
			t.Fatal(err)
		}
		b.wrote(t)
	})
	t.Run("class created between two requests", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.api.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			if err := b.api.Tracker().Add(administered()); err != nil {
				t.Error(err)
			}
			return false, nil, nil
		})
		if err := b.keep(t); err != nil {
			t.Fatal(err)
		}
		b.has(t, administered())
	})
}

func TestForeignClassStays(t *testing.T) {
	t.Parallel()
	foreign := administered()
	foreign.Provisioner = "other.example.com"
	b := newBench(t, foreign)
	if err := b.keep(t); !errors.Is(err, ErrTaken) {
		t.Errorf("got %v, want ErrTaken", err)
	}
	b.wrote(t)
	b.has(t, foreign)
}

// TestRefusedRepairDeletesNothing has admission that refuses the repaired class.
func TestHugeClassIsNotRepaired(t *testing.T) {
	t.Parallel()
	huge := required()
	huge.Parameters = map[string]string{"type": "silver"}
	huge.Annotations = map[string]string{"note": strings.Repeat("x", maxSize)}
	b := newBench(t, huge)
	const want = "the StorageClass is larger than 64 KiB: shorten it, or delete it to have it created again"
	if err := b.keep(t); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	b.has(t, huge)
}

func TestRefusedRepairDeletesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, outdated())
	b.refuse(func(_ clienttesting.CreateActionImpl, class *storagev1.StorageClass) bool { return isRepaired(class) })
	if err := b.keep(t); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want the refusal", err)
	}
	b.wrote(t, "try")
	b.has(t, outdated())
}

// TestOldClassComesBack has admission that accepts the repaired class only in a dry run.
func TestOldClassComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, outdated())
	b.refuse(func(create clienttesting.CreateActionImpl, class *storagev1.StorageClass) bool {
		return isRepaired(class) && len(create.CreateOptions.DryRun) == 0
	})
	cycle := []string{"try", "delete", "create", "create"}
	for _, step := range []struct {
		later  time.Duration
		writes []string
	}{{0, cycle}, {time.Minute, nil}, {replacePause, cycle}} {
		b.clock.SetTime(b.clock.Now().Add(step.later))
		if err := b.keep(t); !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want the refusal", err)
		}
		b.wrote(t, step.writes...)
		b.has(t, outdated())
	}
}

// TestLostClassComesBackWithItsContent has an API server that fails between the deletion and the creation.
func TestLostClassComesBackWithItsContent(t *testing.T) {
	t.Parallel()
	b := newBench(t, outdated())
	failing := true
	b.refuse(func(create clienttesting.CreateActionImpl, _ *storagev1.StorageClass) bool {
		return failing && len(create.CreateOptions.DryRun) == 0
	})
	if err := b.keep(t); err == nil {
		t.Fatal("got no error")
	}
	b.wrote(t, "try", "delete", "create", "create")
	failing = false
	if err := b.keep(t); err != nil {
		t.Fatal(err)
	}
	b.wrote(t, "create")
	b.has(t, administered())
}

func TestFinalizerDelaysRepair(t *testing.T) {
	t.Parallel()
	held := outdated()
	held.Finalizers, held.DeletionTimestamp = []string{"example.com/hold"}, ptr.To(metav1.Unix(0, 0))
	b := newBench(t, held)
	if err := b.keep(t); err == nil {
		t.Error("got no error about a StorageClass that is being deleted")
	}
	b.wrote(t)
	if err := b.api.Tracker().Delete(storagev1.SchemeGroupVersion.WithResource("storageclasses"), "", "gold"); err != nil {
		t.Fatal(err)
	}
	if err := b.keep(t); err != nil {
		t.Fatal(err)
	}
	b.has(t, administered())
}

// stopping cancels its context when it deletes a class, and creates nothing for a context that is done.
type stopping struct {
	storageclient.StorageClassInterface
	stop func()
}

func (s stopping) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	s.stop()
	return s.StorageClassInterface.Delete(ctx, name, options)
}

func (s stopping) Create(ctx context.Context, class *storagev1.StorageClass, options metav1.CreateOptions) (*storagev1.StorageClass, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.StorageClassInterface.Create(ctx, class, options)
}

func TestShutdownDoesNotSplitRepair(t *testing.T) {
	t.Parallel()
	b := newBench(t, outdated())
	ctx, cancel := context.WithCancel(t.Context())
	b.Keeper.api = stopping{b.Keeper.api, cancel}
	if err := b.Keep(ctx, required(), func(*storagev1.StorageClass) bool { return true }); err != nil {
		t.Fatal(err)
	}
	b.has(t, administered())
}
