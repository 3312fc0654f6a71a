package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/budget"
)

const began = "2026-03-01T10:00:00Z"

type cronJobSpec = v1alpha1.ReclaimSpaceCronJobSpec

// fixture is a reconciler with a fake API server and a ReclaimSpaceCronJob, due each hour.
type fixture struct {
	*world

	r     *CronJobs
	clock *testingclock.FakePassiveClock
	c     *v1alpha1.ReclaimSpaceCronJob
}

func newFixture(t *testing.T, change func(*cronJobSpec)) *fixture {
	t.Helper()
	c := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "c", UID: "1", CreationTimestamp: metav1.NewTime(at(t, began)),
		},
		Spec: cronJobSpec{Schedule: "@hourly"},
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

// wantNext compares the next time of the schedule.
func (f *fixture) wantNext(want string) {
	f.Helper()
	got := f.c.Status.NextScheduleTime
	assert.Check(f, got != nil && got.Time.Equal(at(f.T, want)), "the status is %+v", f.c.Status)
}

// An object can be created between a time of its schedule and the start of the job for this time.
func TestAJobStartsAtNextScheduleTime(t *testing.T) {
	t.Parallel()
	for _, uid := range []types.UID{"1", "2", "3", "4"} { // each has another delay
		f := newFixture(t, func(*cronJobSpec) {})
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
	f := newFixture(t, func(*cronJobSpec) {})
	f.after(59 * time.Minute)
	f.wantJobs()
	c := f.after(2 * time.Minute)
	f.after(0)
	f.wantJobs("11")
	assert.Check(t, c.Status.Active != nil)
	f.wantNext("2026-03-01T12:00:00Z")
	f.end(v1alpha1.OperationSucceeded)
	c = f.after(30 * time.Minute)
	assert.Check(t, c.Status.Active == nil && c.Status.LastSuccessfulTime != nil, "%+v", c.Status)
	f.after(3 * time.Hour) // 14:31: only the last of the missed times gets a job
	f.wantJobs("11", "14")
	f.after(-48 * time.Hour) // the clock is set back to a day before
	f.wantNext("2026-02-27T15:00:00Z")
}

func TestForbidLetsThePreviousJobEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(*cronJobSpec) {})
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
	f := newFixture(t, func(s *cronJobSpec) { s.Schedule = "*/1 * * * *" })
	f.r.Options.MinInterval = time.Hour
	f.after(30 * time.Minute)
	f.end(v1alpha1.OperationSucceeded)
	for range 59 {
		f.after(time.Minute)
	}
	f.wantJobs("10")
	assert.Check(t, is.Equal(f.after(0).Status.Reason, ReasonMinInterval))
	f.wantNext("2026-03-01T11:30:00Z")
	f.after(time.Minute)
	f.wantJobs("10", "11")
	f.r.Options.MinInterval = time.Minute
	f.end(v1alpha1.OperationSucceeded)
	assert.Check(t, is.Equal(f.after(time.Minute).Status.Reason, ""))
}

func TestReplaceDeletesThePreviousJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *cronJobSpec) { s.ConcurrencyPolicy = v1alpha1.ReplaceConcurrent })
	f.after(time.Hour)
	f.after(time.Minute)
	f.wantJobs("11")
	f.after(time.Hour)
	f.wantJobs("12")
}

func TestSuspendedAndInvalidCronJobsCreateNoJobs(t *testing.T) {
	t.Parallel()
	forClaim := func(name string) func(*cronJobSpec) {
		return func(s *cronJobSpec) { s.JobTemplate.Spec.Target.PersistentVolumeClaim = name }
	}
	for _, one := range []struct {
		reason string
		change func(*cronJobSpec)
	}{
		{ReasonSuspended, func(s *cronJobSpec) { s.Suspend = ptr.To(true) }},
		{ReasonInvalidSchedule, func(s *cronJobSpec) { s.Schedule = "TZ=UTC" }},
		{ReasonNoTarget, forClaim("")},
		{ReasonNoTarget, forClaim("a/b")},
		{ReasonNoTarget, forClaim(strings.Repeat("a", 254))},
	} {
		f := newFixture(t, one.change)
		c := f.after(5 * time.Hour)
		assert.Check(t, c.Status.Reason == one.reason && c.Status.NextScheduleTime == nil, "%v", c.Status)
		f.wantJobs()
	}
}

func TestStartingDeadlineSkipsOldTimes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *cronJobSpec) { s.StartingDeadlineSeconds = ptr.To(int64(600)) })
	f.after(time.Hour + 30*time.Minute)
	f.wantJobs()
	f.after(35 * time.Minute)
	f.wantJobs("12")
}

func TestHistoryIsLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *cronJobSpec) {
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
	assert.Check(t, is.Len(f.jobs(), 2), "failed jobs")
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	found, err := time.Parse(time.RFC3339, text)
	assert.NilError(t, err)
	return found
}

func TestDueAt(t *testing.T) {
	t.Parallel()
	const summer = "TZ=Europe/Berlin 0 3 * * *"
	for name, one := range map[string]struct {
		schedule, since, now string // in 2026
		last, next           string // "" means none
		missed               bool
	}{
		"not due yet": {"@daily", "03-01 10:00", "03-01 23:59", "", "03-02 00:00", false},
		"due":         {"@daily", "03-01 10:00", "03-02 00:00", "03-02 00:00", "03-03 00:00", false},
		"missed for months": {
			"*/5 * * * *", "03-01 10:01", "09-02 00:02", "09-02 00:00", "09-02 00:05", true,
		},
		"missed over a weekend": {
			"0 9-17 * * 1-5", "03-06 12:30", "03-08 12:00", "03-06 17:00", "03-09 09:00", true,
		},
		"every": {
			"@every 90m", "03-01 00:00", "03-01 10:00", "03-01 09:00", "03-01 10:30", true,
		},
		"in summer time": {summer, "07-01 00:00", "07-01 01:30", "07-01 01:00", "07-02 01:00", false},
		"across the change to summer time": {
			"CRON_" + summer, "03-28 12:00", "03-29 12:00", "03-29 01:00", "03-30 01:00", false,
		},
	} {
		times, err := parse(one.schedule)
		assert.NilError(t, err, name)
		const layout = "2006-01-02 15:04"
		since, _ := time.Parse(layout, "2026-"+one.since)
		now, _ := time.Parse(layout, "2026-"+one.now)
		got := dueAt(times, since, now)
		last := ""
		if !got.last.IsZero() {
			last = got.last.UTC().Format(layout)[len("2026-"):]
		}
		next := got.next.UTC().Format(layout)[len("2026-"):]
		assert.Check(t, is.DeepEqual([]string{one.last, one.next}, []string{last, next}), name)
		assert.Check(t, is.Equal(got.missed, one.missed), name)
	}
}

func TestInvalidSchedulesAreErrors(t *testing.T) {
	t.Parallel()
	for _, schedule := range []string{
		"", "daily", "* * * *", "TZ=Europe/Berlin", "CRON_TZ=", "TZ=Nowhere/City * * * * *",
		"0 0 30 2 *", "@every -1h", strings.Repeat("1,", 200) + "1 * * * *",
	} {
		_, err := parse(schedule)
		assert.Check(t, err != nil, "the schedule %q is accepted", schedule)
	}
}

// 5,000 objects with the same schedule start evenly over the window.
func TestOffsetsSpreadEvenly(t *testing.T) {
	t.Parallel()
	const objects, window = 5000, 2 * time.Hour
	perMinute := map[int]int{}
	for i := range objects {
		got := offset(types.UID(fmt.Sprintf("%08x-0000-4000-8000", i*7919)), 24*time.Hour, window)
		perMinute[int(got/time.Minute)]++
	}
	for minute := range 120 {
		n := perMinute[minute] // about 42
		assert.Check(t, n >= 10 && n <= 100, "%d of %d objects start in minute %d", n, objects, minute)
	}
	short, off := offset("a", time.Minute, window), offset("a", time.Hour, 0)
	assert.Check(t, short < time.Minute && off == 0, "of a minute %v, turned off %v", short, off)
}

func TestJobNamesAreValidAndUnique(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-01T00:00:00Z")
	assert.Check(t, is.Equal(jobName("daily", now), "daily-1772323200"), "the name of the job")
	long := strings.Repeat("a", 252)
	first, second := jobName(long+"b", now), jobName(long+"c", now)
	assert.Check(t, first != second && len(validation.IsDNS1123Subdomain(first)) == 0, first)
}

// FuzzSchedule searches for a schedule that costs too much. Each tenant may write one.
func FuzzSchedule(f *testing.F) {
	for _, part := range []string{
		"1,", "*/1,", "@every 1h", "TZ=a ", "1-59/7,", "0 0 30 2 *", "9", " ",
	} {
		f.Add(budget.Repeated("", part, MaxSchedule))
		f.Add(budget.Repeated("TZ=Europe/Berlin ", part, MaxSchedule) + " * * * *")
		f.Add(part)
	}
	f.Add("0 0 29 2 1")
	f.Fuzz(func(t *testing.T, text string) {
		budget.Check(t, func() {
			schedule, err := parse(text)
			if err == nil {
				dueAt(schedule, time.Unix(0, 0), time.Unix(1<<31, 0))
			}
		})
	})
}
