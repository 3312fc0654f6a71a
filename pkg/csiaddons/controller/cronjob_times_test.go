package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	found, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDueAt(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, schedule, since, now string
		last, next                 string // "" means none
		missed                     bool
	}{
		{
			"not due yet", "@daily", "2026-03-01T10:00:00Z", "2026-03-01T23:59:59Z",
			"", "2026-03-02T00:00:00Z", false,
		},
		{
			"due", "@daily", "2026-03-01T10:00:00Z", "2026-03-02T00:00:00Z",
			"2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z", false,
		},
		{
			"missed for a year", "*/5 * * * *", "2025-03-01T10:01:00Z", "2026-03-02T00:02:00Z",
			"2026-03-02T00:00:00Z", "2026-03-02T00:05:00Z", true,
		},
		{
			"missed over a weekend", "0 9-17 * * 1-5", "2026-03-06T12:30:00Z", "2026-03-08T12:00:00Z",
			"2026-03-06T17:00:00Z", "2026-03-09T09:00:00Z", true,
		},
		{
			"clock set back", "@hourly", "2026-03-02T00:00:00Z", "2026-03-01T10:30:00Z",
			"", "2026-03-01T11:00:00Z", false,
		},
		{
			"every", "@every 90m", "2026-03-01T00:00:00Z", "2026-03-01T10:00:00Z",
			"2026-03-01T09:00:00Z", "2026-03-01T10:30:00Z", true,
		},
		{
			"in summer time", "TZ=Europe/Berlin 0 3 * * *", "2026-07-01T00:00:00Z",
			"2026-07-01T01:30:00Z", "2026-07-01T01:00:00Z", "2026-07-02T01:00:00Z", false,
		},
		{
			"across the change to summer time", "CRON_TZ=Europe/Berlin 0 3 * * *",
			"2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z",
			"2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z", false,
		},
	} {
		times, err := parse(one.schedule)
		if err != nil {
			t.Errorf("%s: %v", one.name, err)
			continue
		}
		got := dueAt(times, at(t, one.since), at(t, one.now))
		last := ""
		if !got.last.IsZero() {
			last = got.last.UTC().Format(time.RFC3339)
		}
		if next := got.next.UTC().Format(time.RFC3339); last != one.last || next != one.next ||
			got.missed != one.missed {
			t.Errorf("%s: due at %q, then at %q, missed %v, want %q, %q, %v", one.name, last, next,
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
		uid := types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i*7919))
		got := offset(uid, 24*time.Hour, window)
		if got < 0 || got >= window || got != offset(uid, 24*time.Hour, window) {
			t.Fatalf("the offset of %s is %v", uid, got)
		}
		perMinute[int(got/time.Minute)]++
	}
	for minute := range 120 {
		if n := perMinute[minute]; n < 10 || n > 100 { // about 42
			t.Errorf("%d of %d objects start in minute %d", n, objects, minute)
		}
	}
	if got := offset("a", time.Minute, window); got >= time.Minute {
		t.Errorf("the offset %v is longer than the interval of the schedule", got)
	}
	if got := offset("a", time.Hour, 0); got != 0 {
		t.Errorf("the offset is %v although the spread is turned off", got)
	}
}

func TestJobNamesAreValidAndUnique(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-01T00:00:00Z")
	if got := jobName("daily", now); got != "daily-1772323200" {
		t.Errorf("the name of the job is %s", got)
	}
	long := strings.Repeat("a", 252)
	first, second := jobName(long+"b", now), jobName(long+"c", now)
	if first == second || len(validation.IsDNS1123Subdomain(first)) > 0 {
		t.Errorf("two long names lead to the jobs %s and %s", first, second)
	}
}
