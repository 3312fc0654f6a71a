package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// claimOfTenant returns a claim in a phase, with the volume "pv".
func claimOfTenant(uid types.UID, phase corev1.PersistentVolumeClaimPhase,
) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "data", UID: uid},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

// volumeFor returns the volume "pv" of the driver "a", which is bound to a claim.
func volumeFor(claim types.UID) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{UID: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "a"},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func jobFor(name, claim string) *v1alpha1.ReclaimSpaceJob {
	job := &v1alpha1.ReclaimSpaceJob{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name}}
	job.Spec.Target.PersistentVolumeClaim = claim
	return job
}

// newReconciler returns a reconciler with one call, the driver "a" and some objects.
func newReconciler(t *testing.T, objects ...client.Object) *Jobs {
	t.Helper()
	known, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.ReclaimSpaceJob{}).
		WithIndex(&storagev1.VolumeAttachment{}, indexVolume, volumeOf).Build()
	l := newLimited(t, 1, 1)
	return &Jobs{
		Client: kube, Live: kube, Drivers: connection.Drivers{"a": {Namespaces: []string{"drivers"}}},
		Events: events.NewFakeRecorder(10), Clock: testingclock.NewFakePassiveClock(time.Now()),
		Options: Options{ReclaimSpaceTimeout: time.Minute}, limits: l.limits,
		Metrics: l.metrics, Sidecars: fakeSidecars{},
	}
}

// A tenant can create many such jobs, and the controller checks them again and again.
func TestJobWithoutABoundClaimReadsNothingFromTheAPIServer(t *testing.T) {
	t.Parallel()
	for reason, claims := range map[string][]client.Object{
		ReasonClaimNotFound: nil,
		ReasonClaimNotBound: {claimOfTenant("1", corev1.ClaimPending)},
	} {
		job := jobFor("job", "data")
		r := newReconciler(t, append(claims, job)...)
		r.Live = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object,
				_ ...client.GetOption,
			) error {
				t.Errorf("%s: the controller reads %T %s from the API server", reason, o, key)
				return nil
			},
		})
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)}
		for range 2 {
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Client.Get(t.Context(), request.NamespacedName, job); err != nil {
			t.Fatal(err)
		}
		if got := job.Status; got.Reason != reason || got.Result != "" {
			t.Errorf("the job has the status %+v, want the reason %s", got, reason)
		}
	}
}

// A job ends at its deadline, and not only at the next check after it.
func TestJobWaitsForAClaimUntilItsDeadline(t *testing.T) {
	t.Parallel()
	pending := claimOfTenant("1", corev1.ClaimPending)
	for _, one := range []struct {
		claims         []client.Object
		seconds        int64 // of the spec
		deadline, step time.Duration
		want           string
	}{
		{nil, 600, time.Minute, 10 * time.Second, ReasonClaimNotFound},
		{nil, 15, 15 * time.Second, 5 * time.Second, ReasonClaimNotFound},
		{[]client.Object{pending}, 0, 10 * time.Minute, 50 * time.Second, ReasonClaimNotBound},
	} {
		j := jobFor("job", "data")
		j.Spec.RetryDeadlineSeconds = &one.seconds
		r := newReconciler(t, append(one.claims, j)...)
		start := time.Now().Truncate(time.Second)
		clock := testingclock.NewFakePassiveClock(start)
		r.Clock = clock
		at := func(elapsed time.Duration) (time.Duration, v1alpha1.ReclaimSpaceJobStatus) {
			clock.SetTime(start.Add(elapsed))
			key := client.ObjectKeyFromObject(j)
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err == nil {
				err = r.Client.Get(t.Context(), key, j)
			}
			if err != nil {
				t.Fatal(err)
			}
			return result.RequeueAfter, j.Status
		}
		at(0)
		before := one.deadline - one.step
		if next, got := at(before); next != one.step || got.Result != "" {
			t.Errorf("%v before the deadline, the job is checked after %v: %+v", one.step, next, got)
		}
		if _, got := at(one.deadline); got.Result != v1alpha1.OperationFailed || got.Reason != one.want {
			t.Errorf("after %v the status is %+v, want the reason %s", one.deadline, got, one.want)
		}
	}
}

// The cache may contain a claim that was deleted, and created again with another volume.
func TestJobWaitsWhileItsClaimInTheCacheIsOutdated(t *testing.T) {
	t.Parallel()
	released := volumeFor("1")
	released.Status.Phase = corev1.VolumeReleased
	available := volumeFor("1")
	available.Spec.ClaimRef = nil
	for name, one := range map[string]struct {
		volume *corev1.PersistentVolume
		want   string
	}{
		"bound to the claim":                         {volumeFor("1"), ""},
		"bound to the next claim with the same name": {volumeFor("2"), ReasonClaimNotBound},
		"released":  {released, ReasonClaimNotBound},
		"available": {available, ReasonClaimNotBound},
		"deleted":   {nil, ReasonClaimNotBound},
	} {
		r := newReconciler(t, claimOfTenant("1", corev1.ClaimBound))
		live := fake.NewClientBuilder().WithScheme(r.Client.Scheme())
		if one.volume != nil {
			live.WithObjects(one.volume)
		}
		r.Live = live.Build()
		found, problem, err := r.volume(t.Context(), jobFor("job", "data"))
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case one.want == "":
			if problem != nil || found.name != "pv" || found.driver != "a" {
				t.Errorf("%s: the job has the volume %+v, and the problem %+v", name, found, problem)
			}
		case problem == nil || problem.reason != one.want || problem.final:
			t.Errorf("%s: the job has the problem %+v, want one that can end", name, problem)
		}
	}
}

func TestJobsAreWokenWhenTheirClaimIsBound(t *testing.T) {
	t.Parallel()
	pending, bound := claimOfTenant("1", corev1.ClaimPending), claimOfTenant("1", corev1.ClaimBound)
	again, wakes := claimOfTenant("2", corev1.ClaimBound), becameBound()
	for name, one := range map[string]struct{ got, want bool }{
		"first list":    {wakes.Create(event.CreateEvent{Object: bound, IsInInitialList: true}), false},
		"new, bound":    {wakes.Create(event.CreateEvent{Object: bound}), true},
		"new, pending":  {wakes.Create(event.CreateEvent{Object: pending}), false},
		"bound now":     {wakes.Update(event.UpdateEvent{ObjectOld: pending, ObjectNew: bound}), true},
		"still bound":   {wakes.Update(event.UpdateEvent{ObjectOld: bound, ObjectNew: bound}), false},
		"created again": {wakes.Update(event.UpdateEvent{ObjectOld: bound, ObjectNew: again}), true},
		"deleted":       {wakes.Delete(event.DeleteEvent{Object: bound}), false},
	} {
		if one.got != one.want {
			t.Errorf("%s: the claim wakes its jobs: %v, want %v", name, one.got, one.want)
		}
	}

	ended := jobFor("ended", "data")
	ended.Status.Result = v1alpha1.OperationFailed
	elsewhere := jobFor("elsewhere", "data")
	elsewhere.Namespace = "other"
	known, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	r := &Jobs{Client: fake.NewClientBuilder().WithScheme(known).
		WithIndex(&v1alpha1.ReclaimSpaceJob{}, indexClaim, claimOf).
		WithObjects(jobFor("new", "data"), jobFor("another", "data"), jobFor("third", "database"),
			ended, elsewhere).Build()}
	var woken []string
	for _, request := range r.jobsOf(t.Context(), bound) {
		woken = append(woken, request.String())
	}
	slices.SortFunc(woken, strings.Compare)
	if diff := cmp.Diff([]string{"tenant/another", "tenant/new"}, woken); diff != "" {
		t.Errorf("the claim wakes other jobs (-want +got):\n%s", diff)
	}
}
