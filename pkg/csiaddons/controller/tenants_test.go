package controller

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/schedule"
)

// hostileMeta returns metadata as large as a tenant can make them, with an owner.
func hostileMeta() metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Namespace: "n", Name: "a", UID: "1", ResourceVersion: "2", Generation: 3,
		Labels: map[string]string{v1alpha1.ScheduleFromLabel: "Namespace"},
		Annotations: map[string]string{
			v1alpha1.StateAnnotation:                           v1alpha1.ManagedState,
			"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("a", 100<<10),
		},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Other", Name: strings.Repeat("a", 100<<10), UID: "4"},
			{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: "data", UID: "5",
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			},
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager:  "kubectl",
			FieldsV1: metav1.NewFieldsV1(`"` + strings.Repeat("f", 100<<10) + `"`),
		}},
	}
	for n := range 1000 {
		key := fmt.Sprintf("%d.%s/%s", n, v1alpha1.Group, strings.Repeat("k", 60))
		meta.Labels[key] = strings.Repeat("l", 63)
		meta.Annotations[key] = strings.Repeat("v", 100)
		meta.Finalizers = append(meta.Finalizers, key)
	}
	return meta
}

// ownerOf is what the cache contains of the owners of hostileMeta.
func ownerOf() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: "data", UID: "5",
		Controller: ptr.To(true),
	}}
}

func hostileJob() *v1alpha1.ReclaimSpaceJob {
	job := &v1alpha1.ReclaimSpaceJob{ObjectMeta: hostileMeta()}
	job.Spec.Target.PersistentVolumeClaim = strings.Repeat("c", 1<<20)
	job.Spec.BackOffLimit = ptr.To(int32(1))
	job.Status.Retries, job.Status.Message = 1, "kept"
	return job
}

func hostileCronJob() *v1alpha1.ReclaimSpaceCronJob {
	c := &v1alpha1.ReclaimSpaceCronJob{ObjectMeta: hostileMeta()}
	c.Spec.Schedule = strings.Repeat("s", 256<<10)
	c.Spec.ConcurrencyPolicy = v1alpha1.ConcurrencyPolicy(strings.Repeat("p", 256<<10))
	c.Spec.JobTemplate.ObjectMeta = hostileMeta()
	c.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = strings.Repeat("c", 256<<10)
	c.Status.Message = "kept"
	return c
}

func TestCacheContainsOnlyWhatIsReadOfJobs(t *testing.T) {
	t.Parallel()
	want := &v1alpha1.ReclaimSpaceJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "a", UID: "1", ResourceVersion: "2", Generation: 3,
		OwnerReferences: ownerOf(),
	}}
	want.Spec.Target.PersistentVolumeClaim = strings.Repeat("c", 254) // not the name of a claim
	want.Spec.BackOffLimit = ptr.To(int32(1))
	want.Status.Retries, want.Status.Message = 1, "kept"
	got, err := shrinkJob(hostileJob())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, the cache contains (-want +got):\n%s", err, diff)
	}
}

func TestCacheContainsOnlyWhatIsReadOfCronJobs(t *testing.T) {
	t.Parallel()
	want := &v1alpha1.ReclaimSpaceCronJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "a", UID: "1", ResourceVersion: "2", Generation: 3,
		OwnerReferences: ownerOf(),
		Labels:          map[string]string{v1alpha1.ScheduleFromLabel: "Namespace"},
		Annotations:     map[string]string{v1alpha1.StateAnnotation: v1alpha1.ManagedState},
	}}
	want.Spec.Schedule = strings.Repeat("s", schedule.MaxSchedule+1) // not a schedule
	want.Spec.ConcurrencyPolicy = v1alpha1.ConcurrencyPolicy(strings.Repeat("p", 254))
	want.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = strings.Repeat("c", 254)
	want.Status.Message = "kept"
	got, err := shrinkCronJob(hostileCronJob())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, the cache contains (-want +got):\n%s", err, diff)
	}
}

// A transform that keeps a part of a large text can keep all of it in memory.
//
//nolint:paralleltest // other tests change the size of the heap
func TestLargeObjectsOfTenantsNeedLittleMemory(t *testing.T) {
	const objects, limit = 10, 16 << 10
	for name, got := range map[string]int64{
		"ReclaimSpaceJob":     heapOf(t, objects, hostileJob(), shrinkJob),
		"ReclaimSpaceCronJob": heapOf(t, objects, hostileCronJob(), shrinkCronJob),
		"CSIAddonsNode":       heapOf(t, objects, hostileSidecar(), shrinkSidecar),
	} {
		if got > limit {
			t.Errorf("a %s needs %d bytes in the cache, more than %d", name, got, limit)
		}
	}
}

// BenchmarkLargeObjectsOfTenants reports the memory of a cache of large objects, in KiB for each,
// with the transform of the kind, and with that of most kinds.
func BenchmarkLargeObjectsOfTenants(b *testing.B) {
	const objects = 20
	for name, one := range map[string]struct {
		object client.Object
		shrink toolscache.TransformFunc
	}{
		"ReclaimSpaceJob":             {hostileJob(), shrinkJob},
		"ReclaimSpaceJob/default":     {hostileJob(), shrink},
		"ReclaimSpaceCronJob":         {hostileCronJob(), shrinkCronJob},
		"ReclaimSpaceCronJob/default": {hostileCronJob(), shrink},
		"CSIAddonsNode":               {hostileSidecar(), shrinkSidecar},
		"CSIAddonsNode/default":       {hostileSidecar(), shrink},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(float64(heapOf(b, objects, one.object, one.shrink))/(1<<10), "KiB/object")
			}
		})
	}
}

// heapOf returns the bytes of an object in a cache, the mean of some.
func heapOf(tb testing.TB, count int, object client.Object, transform toolscache.TransformFunc,
) int64 {
	tb.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil)
	before := liveHeap()
	for n := range count {
		decoded := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
		if err := json.Unmarshal(text, decoded); err != nil {
			tb.Fatal(err)
		}
		decoded.SetName(fmt.Sprint(n))
		small, err := transform(decoded)
		if err != nil {
			tb.Fatal(err)
		}
		if err := store.Add(small); err != nil {
			tb.Fatal(err)
		}
	}
	after := liveHeap()
	runtime.KeepAlive(store)
	runtime.KeepAlive(text)
	return (after - before) / int64(count)
}

// liveHeap returns the bytes of all objects that are reachable.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // ends what the first one keeps of pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
