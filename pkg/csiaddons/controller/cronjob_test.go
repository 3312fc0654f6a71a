package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

const began = "2026-03-01T10:00:00Z"

// fixture is a reconciler with a fake API server and a ReclaimSpaceCronJob, due each hour.
type fixture struct {
	*testing.T

	r     *CronJobs
	clock *testingclock.FakePassiveClock
	name  types.NamespacedName
}

func newFixture(t *testing.T, change func(*v1alpha1.ReclaimSpaceCronJobSpec)) *fixture {
	t.Helper()
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "c", UID: "1", CreationTimestamp: metav1.NewTime(at(t, began)),
		},
		Spec: v1alpha1.ReclaimSpaceCronJobSpec{Schedule: "@hourly"},
	}
	c.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = "data"
	change(&c.Spec)
	clock := testingclock.NewFakePassiveClock(at(t, began))
	kube := fake.NewClientBuilder().WithScheme(known).WithObjects(c).
		WithStatusSubresource(&v1alpha1.ReclaimSpaceCronJob{}, &v1alpha1.ReclaimSpaceJob{}).
		WithIndex(&v1alpha1.ReclaimSpaceJob{}, indexOwner, func(o client.Object) []string {
			return []string{string(o.GetOwnerReferences()[0].UID)}
		}).Build()
	return &fixture{T: t, clock: clock, name: client.ObjectKeyFromObject(c), r: &CronJobs{
		Client: kube, Clock: clock,
		Events: events.NewFakeRecorder(100),
	}}
}

// after moves the clock and reconciles. It returns the object.
func (f *fixture) after(d time.Duration) *v1alpha1.ReclaimSpaceCronJob {
	f.Helper()
	f.clock.SetTime(f.clock.Now().Add(d))
	_, err := f.r.Reconcile(f.Context(), reconcile.Request{NamespacedName: f.name})
	if err != nil {
		f.Fatal(err)
	}
	c := &v1alpha1.ReclaimSpaceCronJob{}
	if err := f.r.Client.Get(f.Context(), f.name, c); err != nil {
		f.Fatal(err)
	}
	return c
}

// end ends all jobs that run.
func (f *fixture) end(result v1alpha1.OperationResult) {
	f.Helper()
	var list v1alpha1.ReclaimSpaceJobList
	if err := f.r.Client.List(f.Context(), &list); err != nil {
		f.Fatal(err)
	}
	for i := range list.Items {
		if job := &list.Items[i]; job.Status.Result == "" {
			job.Status.Result = result
			job.Status.CompletionTime = &metav1.Time{Time: f.clock.Now()}
			if err := f.r.Client.Status().Update(f.Context(), job); err != nil {
				f.Fatal(err)
			}
		}
	}
}

// wantJobs compares the times of the schedule for which there are jobs.
func (f *fixture) wantJobs(hours ...string) {
	f.Helper()
	var list v1alpha1.ReclaimSpaceJobList
	if err := f.r.Client.List(f.Context(), &list); err != nil {
		f.Fatal(err)
	}
	got := []string{}
	for i := range list.Items {
		scheduled := list.Items[i].Annotations[v1alpha1.ScheduledAtAnnotation]
		got = append(got, scheduled[len("2026-03-01T"):len("2026-03-01T")+2])
	}
	slices.Sort(got)
	if diff := cmp.Diff(append([]string{}, hours...), got); diff != "" {
		f.Errorf("hours of the jobs (-want +got):\n%s", diff)
	}
}

func TestCronJobCreatesOneJobForEachTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(*v1alpha1.ReclaimSpaceCronJobSpec) {})
	f.after(59 * time.Minute)
	f.wantJobs()
	c := f.after(2 * time.Minute)
	f.after(0)
	f.wantJobs("11")
	if c.Status.Active == nil || c.Status.NextScheduleTime == nil ||
		!c.Status.NextScheduleTime.Equal(ptr.To(metav1.NewTime(at(t, "2026-03-01T12:00:00Z")))) {
		t.Errorf("the status is %+v", c.Status)
	}
	f.end(v1alpha1.OperationSucceeded)
	c = f.after(30 * time.Minute)
	if c.Status.Active != nil || c.Status.LastSuccessfulTime == nil {
		t.Errorf("after the end of the job, the status is %+v", c.Status)
	}
	f.after(3 * time.Hour) // 14:31: only the last of the missed times gets a job
	f.wantJobs("11", "14")
}

func TestForbidLetsThePreviousJobEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(*v1alpha1.ReclaimSpaceCronJobSpec) {})
	f.after(time.Hour)
	c := f.after(time.Hour)
	f.wantJobs("11")
	if c.Status.Reason != ReasonActive {
		t.Errorf("the reason is %q", c.Status.Reason)
	}
	f.end(v1alpha1.OperationSucceeded)
	f.after(time.Minute)
	f.wantJobs("11", "12")
}

// A tenant may schedule a job each minute. An administrator can allow fewer.
func TestJobsStartAfterTheMinimumInterval(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *v1alpha1.ReclaimSpaceCronJobSpec) { s.Schedule = "*/1 * * * *" })
	f.r.Options.MinInterval = time.Hour
	f.after(30 * time.Minute)
	f.end(v1alpha1.OperationSucceeded)
	for range 59 {
		f.after(time.Minute)
	}
	f.wantJobs("10")
	c := f.after(0)
	if c.Status.Reason != ReasonMinInterval || c.Status.NextScheduleTime == nil ||
		!c.Status.NextScheduleTime.Equal(ptr.To(metav1.NewTime(at(t, "2026-03-01T11:30:00Z")))) {
		t.Errorf("the status is %+v", c.Status)
	}
	f.after(time.Minute)
	f.wantJobs("10", "11")
	f.r.Options.MinInterval = time.Minute
	f.end(v1alpha1.OperationSucceeded)
	if c := f.after(time.Minute); c.Status.Reason != "" {
		t.Errorf("the status is %+v", c.Status)
	}
}

func TestReplaceDeletesThePreviousJobIfThereIsOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *v1alpha1.ReclaimSpaceCronJobSpec) {
		s.ConcurrencyPolicy = v1alpha1.ReplaceConcurrent
	})
	f.after(time.Hour) // without a previous job
	f.wantJobs("11")
	f.after(time.Minute)
	f.wantJobs("11")
	f.after(time.Hour)
	f.wantJobs("12")
}

func TestSuspendedAndInvalidCronJobsCreateNoJobs(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(*v1alpha1.ReclaimSpaceCronJobSpec){
		ReasonSuspended:       func(s *v1alpha1.ReclaimSpaceCronJobSpec) { s.Suspend = ptr.To(true) },
		ReasonInvalidSchedule: func(s *v1alpha1.ReclaimSpaceCronJobSpec) { s.Schedule = "TZ=UTC" },
	} {
		f := newFixture(t, change)
		if c := f.after(5 * time.Hour); c.Status.Reason != reason || c.Status.NextScheduleTime != nil {
			t.Errorf("the status is %+v, want the reason %s", c.Status, reason)
		}
		f.wantJobs()
	}
}

func TestCronJobWithoutTheNameOfAClaimCreatesNoJobs(t *testing.T) {
	t.Parallel()
	for _, claim := range []string{"", "a/b", strings.Repeat("a", 254)} {
		f := newFixture(t, func(s *v1alpha1.ReclaimSpaceCronJobSpec) {
			s.JobTemplate.Spec.Target.PersistentVolumeClaim = claim
		})
		c := f.after(5 * time.Hour)
		if c.Status.Reason != ReasonNoTarget || !strings.Contains(c.Status.Message, "spec.jobTemplate") {
			t.Errorf("for the claim %.10q the status is %+v", claim, c.Status)
		}
		f.wantJobs()
	}
}

func TestJobHasTheMetadataOfTheTemplate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *v1alpha1.ReclaimSpaceCronJobSpec) {
		s.JobTemplate.Labels = map[string]string{"team": "a"}
		s.JobTemplate.Annotations = map[string]string{"note": "b"}
	})
	f.after(time.Hour)
	var list v1alpha1.ReclaimSpaceJobList
	err := f.r.Client.List(t.Context(), &list, client.MatchingLabels{"team": "a"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Annotations["note"] != "b" {
		t.Errorf("the jobs with the label of the template are %+v: %v", list.Items, err)
	}
}

func TestStartingDeadlineSkipsOldTimes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *v1alpha1.ReclaimSpaceCronJobSpec) {
		s.StartingDeadlineSeconds = ptr.To(int64(600))
	})
	f.after(time.Hour + 30*time.Minute)
	f.wantJobs()
	f.after(35 * time.Minute)
	f.wantJobs("12")
}

func TestHistoryIsLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *v1alpha1.ReclaimSpaceCronJobSpec) {
		s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = ptr.To(int32(0)), ptr.To(int32(2))
	})
	for _, result := range []v1alpha1.OperationResult{
		v1alpha1.OperationFailed, v1alpha1.OperationSucceeded, v1alpha1.OperationFailed,
		v1alpha1.OperationFailed,
	} {
		f.after(time.Hour)
		f.end(result)
	}
	f.after(time.Minute)
	var list v1alpha1.ReclaimSpaceJobList
	if err := f.r.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Status.Result != v1alpha1.OperationFailed {
			t.Errorf("job %s is kept", list.Items[i].Name)
		}
	}
	if len(list.Items) != 2 {
		t.Errorf("%d failed jobs are kept, want 2", len(list.Items))
	}
}
