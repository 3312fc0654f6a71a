package controller

import (
	"fmt"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// job returns a job in a namespace of its own.
func job(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: name, Name: name}
}

// on returns what a call of a job on a node needs; "" is the controller service.
func on(driver, node string, job types.NamespacedName) slot {
	return slot{driver, job.Namespace, node}
}

// limited are limits, and the jobs that they wake.
type limited struct {
	*limits

	woken []string
}

func newLimited(t *testing.T, all, perDriver int) *limited {
	t.Helper()
	l := &limited{}
	l.limits = newLimits(all, perDriver, func(job types.NamespacedName) {
		l.woken = append(l.woken, job.Name)
	}, connection.NewMetrics(nil))
	return l
}

// wantWoken compares the jobs that were woken since the last call.
func (l *limited) wantWoken(t *testing.T, want ...string) {
	t.Helper()
	assert.Check(t, is.DeepEqual(want, l.woken), "woken jobs")
	l.woken = nil
}

func TestCallsOfEachDriverAndOfAllDriversAreLimited(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 3, 2)
	for _, one := range []struct {
		driver, job string
		want        bool
	}{
		{"a", "1", true},
		{"a", "2", true},
		{"a", "3", false},
		{"b", "4", true},
		{"b", "5", false},
		{"a", "3", false},
	} {
		assert.Check(t, is.Equal(l.acquire(job(one.job), on(one.driver, "", job(one.job))), one.want),
			"job %s of driver %s gets a call", one.job, one.driver)
	}
	l.wantWoken(t)
	l.release(on("b", "", job("4"))) // driver a has two calls, so job 5 is next
	l.wantWoken(t, "5")
	if l.acquire(job("6"), on("b", "", job("6"))) || !l.acquire(job("5"), on("b", "", job("5"))) {
		t.Error("a job that comes later gets the call of the job that was woken")
	}
	l.release(on("a", "", job("1")))
	l.wantWoken(t, "3")
}

// A tenant with many jobs neither delays the jobs of others behind all of them, nor uses all calls.
func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 4, 4)
	in := func(namespace string, n int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%s%d", namespace, n)}
	}
	acquire := func(name types.NamespacedName) bool { return l.acquire(name, on("a", "", name)) }
	for n := range 100 {
		if got := acquire(in("many", n)); got != (n < 2) || l.blocked(in("many", n)) == got {
			t.Fatalf("job %d of a namespace gets a call: %v; it may use half of four", n, got)
		}
	}
	assert.Assert(t, acquire(in("few", 0)) && acquire(in("single", 0)) && !acquire(in("few", 1)),
		"the calls that a namespace may not use are not for others")
	for _, one := range []struct{ ends, next types.NamespacedName }{
		{in("many", 0), in("many", 2)}, // its last call is earlier than that of few
		{in("many", 1), in("few", 1)},
		{in("single", 0), in("many", 3)},
		{in("few", 0), types.NamespacedName{}}, // many has two calls, and no job of few waits
		{in("many", 2), in("many", 4)},
	} {
		l.release(on("a", "", one.ends))
		if one.next.Name == "" {
			l.wantWoken(t)
			continue
		}
		l.wantWoken(t, one.next.Name)
		assert.Check(t, acquire(one.next), "job %s does not get the call of %s", one.next, one.ends)
	}
}

// A node that never answers keeps its calls. Jobs for other nodes still run, and the volumes of
// those that wait may have moved.
func TestNodeHasTwoCalls(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 10, 10)
	waits := []int{2, 3, 6, 7}
	for n, node := range []string{
		"hung", "hung", "hung", "hung", "other", "other", "other", "other",
	} {
		name := job(fmt.Sprint(n))
		got := l.acquire(name, on("a", node, name))
		assert.Check(t, got != slices.Contains(waits, n) && !l.blocked(name),
			"job %d starts a call on node %s: %v", n, node, got)
	}
	l.release(on("a", "other", job("4")))
	l.wantWoken(t, "6")
	if l.acquire(job("6"), on("a", "hung", job("6"))) { // its volume has moved
		t.Error("the node that hangs gets a third call")
	}
	l.wantWoken(t, "7")
}

// A job that is woken and does not need its call lets the next one have it.
func TestJobThatLeavesWakesTheNext(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 1, 1)
	for _, name := range []string{"runs", "deleted", "moved", "last"} {
		l.acquire(job(name), on("a", "", job(name)))
	}
	l.release(on("a", "", job("runs")))
	l.forget(job("deleted"))
	l.forget(job("never waited"))
	l.acquire(job("moved"), on("b", "", job("moved"))) // its claim has another volume
	l.forget(job("moved"))
	l.release(on("b", "", job("moved")))
	l.wantWoken(t, "deleted", "moved", "last")
	assert.Check(t, l.acquire(job("last"), on("a", "", job("last"))),
		"the last job does not start its call")
	l.release(on("a", "", job("last")))
	assert.Check(t, len(l.calls)+len(l.waiting)+len(l.last) == 0,
		"after the last call, the limits contain %+v", l.limits)
}

// If several calls end at the same time, the job that starts its call wakes the next one.
func TestFreeCallsAreUsedTogether(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 2, 4)
	for _, name := range []string{"0", "1", "2", "3"} {
		l.acquire(job(name), on("a", "", job(name)))
	}
	l.release(on("a", "", job("0")))
	l.release(on("a", "", job("1")))
	l.wantWoken(t, "2", "2")
	l.acquire(job("2"), on("a", "", job("2")))
	l.wantWoken(t, "3")
}
