package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

const began = "2026-03-01T10:00:00Z"

// fixture is a reconciler with a fake API server and a ReclaimSpaceCronJob, due each hour.
type fixture struct {
	*world

	r     *CronJobs
	clock *testingclock.FakePassiveClock
	c     *v1alpha1.ReclaimSpaceCronJob
}

func newFixture(t *testing.T, change func(*v1alpha1.ReclaimSpaceCronJobSpec)) *fixture {
	t.Helper()
	c := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "c", UID: "1", CreationTimestamp: metav1.NewTime(at(t, began)),
		},
		Spec: v1alpha1.ReclaimSpaceCronJobSpec{Schedule: "@hourly"},
	}
	c.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = "data"
	change(&c.Spec)
	w, clock := newWorld(t, c), testingclock.NewFakePassiveClock(at(t, began))
	return &fixture{
		world: w, clock: clock, c: c, r: &CronJobs{Client: w, Clock: clock, Events: w.events},
	}
}

// after moves the clock and reconciles. It returns the object.
func (f *fixture) after(d time.Duration) *v1alpha1.ReclaimSpaceCronJob {
	f.Helper()
	f.clock.SetTime(f.clock.Now().Add(d))
	f.read(f.c)
	_, err := f.r.Reconcile(f.Context(), f.c.DeepCopy())
	f.must(err)
	f.read(f.c)
	return f.c
}

func (f *fixture) jobs() []v1alpha1.ReclaimSpaceJob {
	f.Helper()
	var list v1alpha1.ReclaimSpaceJobList
	f.must(f.List(f.Context(), &list))
	return list.Items
}

// end ends all jobs that run.
func (f *fixture) end(result v1alpha1.OperationResult) {
	f.Helper()
	for _, job := range f.jobs() {
		if job.Status.Result == "" {
			job.Status.Result = result
			job.Status.CompletionTime = &metav1.Time{Time: f.clock.Now()}
			f.must(f.Status().Update(f.Context(), &job))
		}
	}
}

// wantJobs compares the times of the schedule for which there are jobs.
func (f *fixture) wantJobs(hours ...string) {
	f.Helper()
	got := []string{}
	for _, job := range f.jobs() {
		scheduled := job.Annotations[v1alpha1.ScheduledAtAnnotation]
		got = append(got, scheduled[len("2026-03-01T"):len("2026-03-01T")+2])
	}
	slices.Sort(got)
	assert.Check(f, is.DeepEqual(append([]string{}, hours...), got), "hours of the jobs")
}

// An object can be created between a time of its schedule and the start of the job for this time.
func TestAJobStartsAtNextScheduleTime(t *testing.T) {
	t.Parallel()
	for _, uid := range []types.UID{"1", "2", "3", "4"} { // each has another delay
		f := newFixture(t, func(*v1alpha1.ReclaimSpaceCronJobSpec) {})
		f.r.Options.StaggerWindow = 1
		f.read(f.c)
		f.c.UID = uid
		f.must(f.Update(f.Context(), f.c))
		c := f.after(0)
		f.after(c.Status.NextScheduleTime.Sub(f.clock.Now()))
		f.wantJobs("11")
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
	assert.Check(t, c.Status.Active == nil && c.Status.LastSuccessfulTime != nil,
		"after the end of the job, the status is %+v", c.Status)
	f.after(3 * time.Hour) // 14:31: only the last of the missed times gets a job
	f.wantJobs("11", "14")
	c = f.after(-48 * time.Hour) // the clock is set back to a day before
	if !c.Status.NextScheduleTime.Equal(ptr.To(metav1.NewTime(at(t, "2026-02-27T15:00:00Z")))) {
		t.Errorf("after the clock was set back, the status is %+v", c.Status)
	}
}

func TestForbidLetsThePreviousJobEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(*v1alpha1.ReclaimSpaceCronJobSpec) {})
	f.after(time.Hour)
	c := f.after(time.Hour)
	f.wantJobs("11")
	assert.Check(t, c.Status.Reason == ReasonActive, "the reason is %q", c.Status.Reason)
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

func TestReplaceDeletesThePreviousJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *v1alpha1.ReclaimSpaceCronJobSpec) {
		s.ConcurrencyPolicy = v1alpha1.ReplaceConcurrent
	})
	f.after(time.Hour)
	f.after(time.Minute)
	f.wantJobs("11")
	f.after(time.Hour)
	f.wantJobs("12")
}

func TestSuspendedAndInvalidCronJobsCreateNoJobs(t *testing.T) {
	t.Parallel()
	forClaim := func(name string) func(*v1alpha1.ReclaimSpaceCronJobSpec) {
		return func(s *v1alpha1.ReclaimSpaceCronJobSpec) {
			s.JobTemplate.Spec.Target.PersistentVolumeClaim = name
		}
	}
	for _, one := range []struct {
		reason string
		change func(*v1alpha1.ReclaimSpaceCronJobSpec)
	}{
		{ReasonSuspended, func(s *v1alpha1.ReclaimSpaceCronJobSpec) { s.Suspend = ptr.To(true) }},
		{
			ReasonInvalidSchedule,
			func(s *v1alpha1.ReclaimSpaceCronJobSpec) { s.Schedule = "TZ=UTC" },
		},
		{ReasonNoTarget, forClaim("")},
		{ReasonNoTarget, forClaim("a/b")},
		{ReasonNoTarget, forClaim(strings.Repeat("a", 254))},
	} {
		f := newFixture(t, one.change)
		c := f.after(5 * time.Hour)
		assert.Check(t, c.Status.Reason == one.reason && c.Status.NextScheduleTime == nil,
			"the status is %+v, want the reason %s", c.Status, one.reason)
		f.wantJobs()
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
	for _, job := range f.jobs() {
		assert.Check(t, job.Status.Result == v1alpha1.OperationFailed, "job %s is kept", job.Name)
	}
	if got := len(f.jobs()); got != 2 {
		t.Errorf("%d failed jobs are kept, want 2", got)
	}
}
