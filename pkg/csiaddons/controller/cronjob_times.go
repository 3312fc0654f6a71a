package controller

import (
	"fmt"
	"hash/fnv"
	"sort"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/types"
)

// MaxSchedule limits the text of a schedule with its time zone, in bytes. The
// CustomResourceDefinition has the same limit.
const MaxSchedule = 256

// parse parses a schedule in the format of cron. Without the prefix TZ=, it is in UTC.
func parse(text string) (cron.Schedule, error) {
	if len(text) > MaxSchedule {
		return nil, fmt.Errorf("the schedule has more than %d bytes", MaxSchedule)
	}
	// The parser panics on a time zone without a schedule.
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		if _, rest, ok := strings.Cut(text, " "); !ok || strings.TrimSpace(rest) == "" {
			return nil, fmt.Errorf("the schedule %q contains only a time zone", text)
		}
	}
	found, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("the schedule %q is not in the format of cron: %w", text, err)
	}
	every, ok := found.(cron.ConstantDelaySchedule)
	if ok && every.Delay < time.Minute { // also a negative interval, which becomes a second
		return nil, fmt.Errorf("the schedule %q is due more often than once a minute", text)
	}
	if found.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, fmt.Errorf("the schedule %q is never due", text)
	}
	return found, nil
}

// offset returns by how much the jobs of an object start after its schedule, so that objects with
// the same schedule do not start at the same time. It is shorter than an interval of the schedule,
// and the same each time.
func offset(uid types.UID, interval, window time.Duration) time.Duration {
	limit := min(interval, window)
	if limit < time.Second {
		return 0
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid)) // never fails
	return time.Duration(int64(hash.Sum32())%int64(limit/time.Second)) * time.Second
}

// due is what a schedule says at a time.
type due struct {
	// last is the last time of the schedule that has passed; zero without one.
	last time.Time
	// next is the next time of the schedule.
	next time.Time
	// missed says that more than one time has passed.
	missed bool
}

// dueAt returns the last time of a schedule after since and not after now, and the next.
func dueAt(schedule cron.Schedule, since, now time.Time) due {
	first := schedule.Next(since)
	if first.IsZero() || first.After(now) {
		return due{next: first}
	}
	passed := now.Sub(first)
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
		passed = passed.Truncate(every.Delay)
	} else {
		// A schedule can have passed very often since then. Its times are full seconds.
		passed = time.Second * time.Duration(sort.Search(int(passed/time.Second), func(i int) bool {
			next := schedule.Next(first.Add(time.Duration(i) * time.Second))
			return next.IsZero() || next.After(now)
		}))
	}
	last := first.Add(passed)
	return due{last: last, next: schedule.Next(last), missed: last.After(first)}
}
