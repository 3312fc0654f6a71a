package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

func jobFor(claim string) *v1alpha1.ReclaimSpaceJob {
	job := &v1alpha1.ReclaimSpaceJob{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "job"}}
	job.Spec.Target.PersistentVolumeClaim = claim
	return job
}

// newReconciler returns a reconciler with one call, the driver "a" and some objects.
func newReconciler(t *testing.T, objects ...client.Object) (*Jobs, *world) {
	t.Helper()
	w, l := newWorld(t, objects...), newLimited(t, 1, 1)
	return &Jobs{
		Client: w, Live: w, Drivers: servedDrivers(), Events: w.events,
		Clock:   testingclock.NewFakePassiveClock(time.Now()),
		Options: Options{ReclaimSpaceTimeout: time.Minute}, limits: l.limits, Metrics: l.metrics,
		Sidecars: fakeSidecars{},
	}, w
}

// reconcile reconciles a job and reads it again. It returns when the job is checked again.
func (w *world) reconcile(r *Jobs, job *v1alpha1.ReclaimSpaceJob) time.Duration {
	w.Helper()
	result, err := r.Reconcile(w.Context(), reconcile.Request{
		NamespacedName: client.ObjectKeyFromObject(job),
	})
	w.must(err)
	w.read(job)
	return result.RequeueAfter
}

// A tenant can create many such jobs, and the controller checks them again and again.
func TestJobWithoutABoundClaimReadsNothingFromTheAPIServer(t *testing.T) {
	t.Parallel()
	for reason, claims := range map[string][]client.Object{
		ReasonClaimNotFound: nil,
		ReasonClaimNotBound: {claimOfTenant("1", corev1.ClaimPending)},
	} {
		job := jobFor("data")
		r, w := newReconciler(t, append(claims, job)...)
		r.Live = interceptor.NewClient(w, interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object,
				_ ...client.GetOption,
			) error {
				t.Errorf("%s: the controller reads %T %s from the API server", reason, o, key)
				return nil
			},
		})
		w.reconcile(r, job)
		w.reconcile(r, job)
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
		j := jobFor("data")
		j.Spec.RetryDeadlineSeconds = &one.seconds
		r, w := newReconciler(t, append(one.claims, j)...)
		start := time.Now().Truncate(time.Second)
		clock := testingclock.NewFakePassiveClock(start)
		r.Clock = clock
		w.reconcile(r, j)
		clock.SetTime(start.Add(one.deadline - one.step))
		if next := w.reconcile(r, j); next != one.step || j.Status.Result != "" {
			t.Errorf("%v before the deadline, the job is checked after %v: %+v", one.step, next, j.Status)
		}
		clock.SetTime(start.Add(one.deadline))
		w.reconcile(r, j)
		assert.Check(t, j.Status.Result == v1alpha1.OperationFailed && j.Status.Reason == one.want,
			"after %v the status is %+v, want the reason %s", one.deadline, j.Status, one.want)
	}
}

// The cache may contain a claim that was deleted, and created again with another volume.
func TestJobWaitsWhileItsClaimInTheCacheIsOutdated(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		change func(*corev1.PersistentVolume)
		bound  bool
	}{
		"bound to the claim": {func(*corev1.PersistentVolume) {}, true},
		"bound to the next claim": {
			func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "2" }, false,
		},
		"released": {
			func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }, false,
		},
		"available": {func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }, false},
		"deleted":   {func(v *corev1.PersistentVolume) { v.Name = "other" }, false},
	} {
		volume := volumeFor("1")
		one.change(volume)
		r, _ := newReconciler(t, claimOfTenant("1", corev1.ClaimBound), volume)
		found, err := r.volume(t.Context(), jobFor("data"))
		problem, waits := errors.AsType[*obstacle](err)
		if one.bound != (err == nil && found.Name == "pv") || one.bound == waits ||
			waits && (problem.reason != ReasonClaimNotBound || problem.final) {
			t.Errorf("%s: the job has the volume %+v: %v", name, found, err)
		}
	}
}

// An API server answers such names with errors.
func TestJobWithAnInvalidNameOfAClaimEnds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a/b", "..", strings.Repeat("a", 300)} {
		_, err := (&Jobs{}).volume(t.Context(), jobFor(name))
		problem, ok := errors.AsType[*obstacle](err)
		assert.Check(t, ok && problem.final && problem.reason == ReasonNoTarget,
			"the claim %.20q has the problem %v", name, err)
	}
}

func TestVolumeOfTheFormerDriverBelongsToCinder(t *testing.T) {
	t.Parallel()
	volume := volumeFor("1")
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "v"},
	}
	job := jobFor("data")
	r, w := newReconciler(t, claimOfTenant("1", corev1.ClaimBound), volume, job)
	w.reconcile(r, job)
	const want = "serve the driver cinder.csi.openstack.org"
	if got := job.Status.Message; !strings.Contains(got, want) {
		t.Errorf("the message is %q, want %q", got, want)
	}
}
