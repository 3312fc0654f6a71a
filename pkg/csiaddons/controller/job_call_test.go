package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// reclaimer is a sidecar that reclaims space.
type reclaimer struct {
	grpc.ClientConnInterface

	reclaim func() (*wire.ReclaimSpaceResponse, error)
}

func (r reclaimer) Invoke(_ context.Context, _ string, _, response any, _ ...grpc.CallOption,
) error {
	answer, err := r.reclaim()
	proto.Merge(response.(proto.Message), answer)
	return err
}

// calling returns a reconciler of a job whose volume is used on a node with a sidecar.
func calling(t *testing.T, reclaim func() (*wire.ReclaimSpaceResponse, error),
) (*Jobs, *world, *v1alpha1.ReclaimSpaceJob) {
	t.Helper()
	job := jobFor("data")
	job.UID = "1"
	r, w := newReconciler(t, job, claimOfTenant("1", corev1.ClaimBound), volumeFor("1"), attachment())
	sidecar := connected("node", "used", connection.NodeService, connection.ReclaimOnline)
	sidecar.Connection = reclaimer{reclaim: reclaim}
	r.Sidecars = fakeSidecars{all: []*connection.Sidecar{sidecar}}
	return r, w, job
}

func twentyBytes() (*wire.ReclaimSpaceResponse, error) {
	return &wire.ReclaimSpaceResponse{
		PreUsage:  &wire.StorageConsumption{UsageBytes: 30},
		PostUsage: &wire.StorageConsumption{UsageBytes: 10},
	}, nil
}

// writing lets a function do the writes of a status.
func writing(w *world, do func(write func() error) error) client.Client {
	return interceptor.NewClient(w, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			options ...client.SubResourceUpdateOption,
		) error {
			return do(func() error { return c.SubResource(sub).Update(ctx, o, options...) })
		},
	})
}

// The API server can apply a write without an answer. The bytes of the call count once.
func TestResultOfACallIsRecordedOnce(t *testing.T) {
	t.Parallel()
	calls := 0
	r, w, job := calling(t, func() (*wire.ReclaimSpaceResponse, error) {
		calls++
		return twentyBytes()
	})
	lose := true
	r.Client = writing(w, func(write func() error) error {
		err := write()
		if lose && calls > 0 {
			lose, err = false, errors.Join(err, errors.New("no answer"))
		}
		return err
	})
	w.reconcile(r, job)
	space := job.Status.ReclaimedSpace
	assert.Check(t, !lose && calls == 1 && job.Status.Result == v1alpha1.OperationSucceeded &&
		space != nil && space.Value() == 20, "after %d calls, the status is %+v", calls, job.Status)
}

func TestAnswerOfADriverIsTheResultOfTheJob(t *testing.T) {
	t.Parallel()
	for reason, one := range map[string]struct {
		answer  *wire.ReclaimSpaceResponse
		failure error
	}{
		ReasonReclaimed: { // the usage grows while the driver works
			&wire.ReclaimSpaceResponse{
				PreUsage:  &wire.StorageConsumption{UsageBytes: 10},
				PostUsage: &wire.StorageConsumption{UsageBytes: 20},
			}, nil,
		},
		ReasonUnimplemented: {nil, status.Error(codes.Unimplemented, "the device cannot discard")},
	} {
		r, w, job := calling(t, func() (*wire.ReclaimSpaceResponse, error) {
			return one.answer, one.failure
		})
		w.reconcile(r, job)
		space := job.Status.ReclaimedSpace
		assert.Check(t, job.Status.Result == v1alpha1.OperationSucceeded && job.Status.Reason == reason &&
			(space == nil) == (one.answer == nil) && (space == nil || space.IsZero()),
			"the status is %+v, want the reason %s", job.Status, reason)
		for _, event := range []string{"Normal Started ", "Normal Succeeded "} {
			got := <-w.events.Events
			assert.Check(t, strings.HasPrefix(got, event), "the event is %q, want %q", got, event)
		}
	}
}

// The sidecar of the CSI-Addons for Ceph answers so if it cannot read the PersistentVolume.
func TestRefusedCallIsRetriedUpToTheLimit(t *testing.T) {
	t.Parallel()
	for refusals, want := range map[int]string{1: ReasonReclaimed, 2: ReasonBackOffLimit} {
		calls := 0
		r, w, job := calling(t, func() (*wire.ReclaimSpaceResponse, error) {
			if calls++; calls <= refusals {
				return nil, status.Error(codes.InvalidArgument, "the API server does not answer")
			}
			return twentyBytes()
		})
		w.read(job)
		job.Spec.BackOffLimit = ptr.To(int32(1))
		w.must(w.Update(t.Context(), job))
		after := w.reconcile(r, job)
		assert.Check(t, job.Status.Result == "" && job.Status.Reason == ReasonRetrying, "%+v", job.Status)
		r.Clock = testingclock.NewFakePassiveClock(r.Clock.Now().Add(after))
		w.reconcile(r, job)
		assert.Check(t, job.Status.Result != "" && job.Status.Reason == want, "%+v", job.Status)
		assert.Check(t, is.Equal(calls, 2))
	}
}

// Each write is a request to the API server. The status says which call runs, and a call that has
// ended is not repeated after a restart of the controller.
func TestJobWritesItsStatusBeforeAndAfterEachCall(t *testing.T) {
	t.Parallel()
	r, w, job := calling(t, twentyBytes)
	leader := connected("leader", "c", connection.ControllerService, connection.ReclaimOffline)
	leader.Connection = reclaimer{reclaim: twentyBytes}
	r.Sidecars = fakeSidecars{
		all: append(r.Sidecars.(fakeSidecars).all, leader), leader: leader.Pod.Name,
	}
	var written []string
	r.Client = writing(w, func(write func() error) error {
		err := write()
		w.read(job)
		written = append(written, fmt.Sprint(job.Status.Step, " ",
			meta.IsStatusConditionTrue(job.Status.Conditions, ConditionRunning), " ", job.Status.Result))
		return err
	})
	w.reconcile(r, job)
	want := []string{"Node true ", "Node false ", "Controller true ", " false Succeeded"}
	assert.Check(t, is.DeepEqual(want, written), "steps, whether a call runs, and results")
}

// The first write fails if the cache is outdated. The status must not name the previous obstacle
// for as long as the job waits.
func TestStatusOfAQueuedJobIsWrittenAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	r, w, waits := calling(t, nil)
	assert.Assert(t, r.limits.acquire(job("runs"), on("a", "", job("runs"))))
	outdated := apierrors.NewConflict(schema.GroupResource{}, "job", errors.New("outdated"))
	r.Client = writing(w, func(func() error) error { return outdated })
	_, err := r.Reconcile(t.Context(), requestFor(waits))
	assert.Check(t, apierrors.IsConflict(err), "the first attempt ends with %v", err)
	r.Client = w
	w.reconcile(r, waits)
	assert.Check(t, waits.Status.Reason == ReasonBusy, "the status is %+v", waits.Status)
}

// A check of a job that waits reads from the API server. The calls of others must not wait for it.
func TestThousandsOfWaitingJobsAreCheckedRarelyAndLast(t *testing.T) {
	t.Parallel()
	r, _, waits := calling(t, nil)
	const others = 5000
	for i := range others {
		other := job(strconv.Itoa(i))
		r.limits.acquire(other, on("a", "", other))
	}
	result, err := r.Reconcile(t.Context(), requestFor(waits))
	assert.Check(t, err == nil && result.RequeueAfter >= others*perWaiting &&
		ptr.Deref(result.Priority, 0) == handler.LowPriority,
		"the job is checked again as %+v, %v", result, err)
}

// A clock that jumps neither ends a job early nor delays it for long.
func TestRetryFollowsAfterADelay(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, one := range []struct {
		retries    int32
		jump, want time.Duration
	}{
		{0, 0, 5 * time.Second},
		{1, 0, 5 * time.Second},
		{2, 0, 10 * time.Second},
		{3, 2 * time.Second, 18 * time.Second},
		{7, 0, 5 * time.Minute},
		{60, 0, 5 * time.Minute},
		{1, -24 * time.Hour, 5 * time.Second},
	} {
		r := &Jobs{Clock: testingclock.NewFakePassiveClock(now)}
		j := &v1alpha1.ReclaimSpaceJob{}
		j.Status.Retries, j.Status.StartTime = one.retries, &metav1.Time{Time: now}
		r.set(j, ConditionRunning, false, ReasonRetrying, "failed")
		r.Clock = testingclock.NewFakePassiveClock(now.Add(one.jump))
		assert.Check(t, is.Equal(r.untilRetry(j), one.want), "until the retry after %+v", one)
		assert.Check(t, r.left(j, ReasonRetrying) > 0)
	}
}

func TestJobLimitsItsCallsToAnHour(t *testing.T) {
	t.Parallel()
	for configured, want := range map[time.Duration]time.Duration{
		time.Minute: time.Hour, 3 * time.Hour: 3 * time.Hour,
	} {
		r := &Jobs{Options: Options{ReclaimSpaceTimeout: configured}}
		j := &v1alpha1.ReclaimSpaceJob{}
		assert.Check(t, is.Equal(r.timeout(j), configured), "the timeout of a call")
		j.Spec.Timeout = ptr.To(int64(1) << 62)
		assert.Check(t, is.Equal(r.timeout(j), want), "the timeout of the calls of a job")
	}
}

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

func requestFor(job *v1alpha1.ReclaimSpaceJob) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)}
}

// reconcile reconciles a job and reads it again. It returns when the job is checked again.
func (w *world) reconcile(r *Jobs, job *v1alpha1.ReclaimSpaceJob) time.Duration {
	w.Helper()
	result, err := r.Reconcile(w.Context(), requestFor(job))
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
		assert.Check(t, job.Status.Reason == reason && job.Status.Result == "", "%+v", job.Status)
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
		assert.Check(t, is.Equal(w.reconcile(r, j), one.step), "the time until the next check")
		assert.Check(t, j.Status.Result == "", "%v before the deadline: %+v", one.step, j.Status)
		clock.SetTime(start.Add(one.deadline))
		w.reconcile(r, j)
		assert.Check(t, is.Equal(j.Status.Result, v1alpha1.OperationFailed))
		assert.Check(t, is.Equal(j.Status.Reason, one.want))
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
		assert.Check(t, one.bound == (err == nil && found.Name == "pv") && one.bound != waits &&
			(!waits || problem.reason == ReasonClaimNotBound && !problem.final),
			"%s: the job has the volume %+v: %v", name, found, err)
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
	assert.Check(t, is.Contains(job.Status.Message, want))
}
