package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

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
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		const layout = "2006-01-02 15:04"
		since, _ := time.Parse(layout, "2026-"+one.since)
		now, _ := time.Parse(layout, "2026-"+one.now)
		got := dueAt(times, since, now)
		last := ""
		if !got.last.IsZero() {
			last = got.last.UTC().Format(layout)[len("2026-"):]
		}
		next := got.next.UTC().Format(layout)[len("2026-"):]
		if last != one.last || next != one.next || got.missed != one.missed {
			t.Errorf("%s: due at %q, then at %q, missed %v, want %q, %q, %v", name, last, next,
				got.missed, one.last, one.next, one.missed)
		}
	}
}

func TestInvalidSchedulesAreErrors(t *testing.T) {
	t.Parallel()
	for _, schedule := range []string{
		"", "daily", "* * * *", "TZ=Europe/Berlin", "CRON_TZ=", "TZ=Nowhere/City * * * * *",
		"0 0 30 2 *", "@every -1h", strings.Repeat("1,", 200) + "1 * * * *",
	} {
		if _, err := parse(schedule); err == nil {
			t.Errorf("the schedule %q is accepted", schedule)
		}
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
		if n := perMinute[minute]; n < 10 || n > 100 { // about 42
			t.Errorf("%d of %d objects start in minute %d", n, objects, minute)
		}
	}
	short, off := offset("a", time.Minute, window), offset("a", time.Hour, 0)
	assert.Check(t, short < time.Minute && off == 0,
		"the offset is %v of a minute, and %v although the spread is turned off", short, off)
}

func TestJobNamesAreValidAndUnique(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-01T00:00:00Z")
	assert.Check(t, is.Equal(jobName("daily", now), "daily-1772323200"), "the name of the job")
	long := strings.Repeat("a", 252)
	first, second := jobName(long+"b", now), jobName(long+"c", now)
	assert.Check(t, first != second && len(validation.IsDNS1123Subdomain(first)) == 0,
		"two long names lead to the jobs %s and %s", first, second)
}
