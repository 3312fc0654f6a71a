package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	wire.ReclaimSpaceClient

	reclaim func() (*wire.ReclaimSpaceResponse, error)
}

func (r reclaimer) NodeReclaimSpace(context.Context, *wire.ReclaimSpaceRequest, ...grpc.CallOption,
) (*wire.ReclaimSpaceResponse, error) {
	return r.reclaim()
}

func (r reclaimer) ControllerReclaimSpace(context.Context, *wire.ReclaimSpaceRequest,
	...grpc.CallOption,
) (*wire.ReclaimSpaceResponse, error) {
	return r.reclaim()
}

// calling returns a reconciler of a job whose volume is used on a node with a sidecar.
func calling(t *testing.T, reclaim func() (*wire.ReclaimSpaceResponse, error),
) (*Jobs, *world, *v1alpha1.ReclaimSpaceJob) {
	t.Helper()
	job := jobFor("data")
	job.UID = "1"
	r, w := newReconciler(t, job, claimOfTenant("1", corev1.ClaimBound), volumeFor("1"), attachment())
	sidecar := connected("node", "used", connection.NodeService, connection.ReclaimOnline)
	sidecar.ReclaimSpace = reclaimer{reclaim: reclaim}
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

// The API server can apply a write although the controller gets no answer. The bytes of the call
// count once.
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
	if lose || calls != 1 || job.Status.Result != v1alpha1.OperationSucceeded || space == nil ||
		space.Value() != 20 {
		t.Errorf("after %d calls, the status is %+v, want 20 reclaimed bytes", calls, job.Status)
	}
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
		assert.Check(t, job.Status.Result == "" && job.Status.Reason == ReasonRetrying,
			"after a refused call, the status is %+v", job.Status)
		r.Clock = testingclock.NewFakePassiveClock(r.Clock.Now().Add(after))
		w.reconcile(r, job)
		assert.Check(t, job.Status.Result != "" && job.Status.Reason == want && calls == 2,
			"after %d calls, the status is %+v, want the reason %s", calls, job.Status, want)
	}
}

// Each write is a request to the API server. The status says which call runs, and a call that has
// ended is not repeated after a restart of the controller.
func TestJobWritesItsStatusBeforeAndAfterEachCall(t *testing.T) {
	t.Parallel()
	r, w, job := calling(t, twentyBytes)
	leader := connected("leader", "c", connection.ControllerService, connection.ReclaimOffline)
	leader.ReclaimSpace = reclaimer{reclaim: twentyBytes}
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

// The previous release wrote status.queueSeconds and the reason Turn.
func TestJobOfAnEarlierReleaseIsFinished(t *testing.T) {
	t.Parallel()
	for name, written := range map[string]string{
		"in the queue": `{"queueSeconds": 600, "step": "Waiting", "reason": "TooManyCalls",
			"conditions": [{"type": "Queued", "status": "True", "reason": "TooManyCalls"},
			{"type": "Running", "status": "False", "reason": "TooManyCalls"}]}`,
		"out of the queue": `{"queueSeconds": 600, "step": "Node", "reason": "Started", "retries": 1,
			"conditions": [{"type": "Queued", "status": "False", "reason": "Turn"},
			{"type": "Running", "status": "True", "reason": "Started"}]}`,
	} {
		r, w, job := calling(t, twentyBytes)
		w.read(job)
		w.must(json.Unmarshal([]byte(written), &job.Status))
		w.must(w.Status().Update(t.Context(), job))
		w.reconcile(r, job)
		assert.Check(t, job.Status.Result == v1alpha1.OperationSucceeded,
			"a job %s ends with %+v", name, job.Status)
	}
}

// The first write fails if the cache is outdated. The status must not name the previous obstacle
// for as long as the job waits.
func TestStatusOfAQueuedJobIsWrittenAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	r, w, waits := calling(t, nil)
	assert.Assert(t, r.limits.acquire(job("runs"), on("a", "", job("runs"))),
		"the first job has no call")
	outdated := apierrors.NewConflict(schema.GroupResource{}, "job", errors.New("outdated"))
	r.Client = writing(w, func(func() error) error { return outdated })
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(waits)}
	if _, err := r.Reconcile(t.Context(), request); !apierrors.IsConflict(err) {
		t.Errorf("the first attempt ends with %v", err)
	}
	r.Client = w
	w.reconcile(r, waits)
	assert.Check(t, waits.Status.Reason == ReasonBusy, "the status is %+v", waits.Status)
}

// Each check of a job that waits reads from the API server, and the calls of other jobs must not
// wait for it.
func TestThousandsOfWaitingJobsAreCheckedRarelyAndLast(t *testing.T) {
	t.Parallel()
	r, _, waits := calling(t, nil)
	const others = 5000
	for i := range others {
		other := job(strconv.Itoa(i))
		r.limits.acquire(other, on("a", "", other))
	}
	result, err := r.Reconcile(t.Context(), reconcile.Request{
		NamespacedName: client.ObjectKeyFromObject(waits),
	})
	if err != nil || result.RequeueAfter < others*perWaiting ||
		ptr.Deref(result.Priority, 0) != handler.LowPriority {
		t.Errorf("the job is checked again as %+v, %v", result, err)
	}
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
		if got := r.untilRetry(j); got != one.want || r.left(j, ReasonRetrying) <= 0 {
			t.Errorf("%v after retry %d, the next follows in %v, want %v", one.jump, one.retries, got,
				one.want)
		}
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
