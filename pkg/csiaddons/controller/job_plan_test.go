package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// fakeSidecars are the connected sidecars of the driver "a". The pod leader holds its Lease, which
// does not exist if leader is "".
type fakeSidecars struct {
	all    []*connection.Sidecar
	leader string
}

func (f fakeSidecars) Any(_ string, capabilities ...string) bool {
	return len(f.having(capabilities)) > 0
}

func (f fakeSidecars) having(capabilities []string) []*connection.Sidecar {
	return slices.DeleteFunc(slices.Clone(f.all), func(one *connection.Sidecar) bool {
		return !one.Has(capabilities...)
	})
}

func (f fakeSidecars) OnNode(_, node string, capabilities ...string) *connection.Sidecar {
	for _, one := range f.having(capabilities) {
		if one.Node == node {
			return one
		}
	}
	return nil
}

func (f fakeSidecars) Leader(_ context.Context, _ string, capabilities ...string,
) (*connection.Sidecar, bool, error) {
	for _, one := range f.having(append(capabilities, connection.ControllerService)) {
		if one.Pod.Name == f.leader {
			return one, true, nil
		}
	}
	return nil, f.leader != "", nil
}

func connected(pod, node string, capabilities ...string) *connection.Sidecar {
	return &connection.Sidecar{
		Target: connection.Target{
			Driver: "a", Node: node, Pod: types.NamespacedName{Namespace: "drivers", Name: pod},
		},
		Capabilities: capabilities,
	}
}

// What a sidecar declares counts only for the calls that it would serve, so an old sidecar, or one
// of an attacker, does not stop the jobs of others.
func TestCapabilitiesOfOneSidecarDoNotCountForOthers(t *testing.T) {
	t.Parallel()
	node, both := connection.NodeService, connection.ControllerService
	online, offline := connection.ReclaimOnline, connection.ReclaimOffline
	liar := connected("liar", "other", node, both, online, offline)
	used, old := connected("node", "used", node, online), connected("node", "used", node)
	leader, lame := connected("leader", "c", both, offline), connected("leader", "c", both)
	type sidecars = []*connection.Sidecar
	const complete = ""
	for name, one := range map[string]struct {
		sidecars sidecars
		leader   string
		done     string // condition of the job
		want     string // pod of the sidecar, or the reason of an obstacle
	}{
		"the node of the volume can reclaim": {sidecars{liar, used}, "", "", "node"},
		"the node of the volume cannot reclaim": {
			sidecars{liar, old, lame}, "leader", "", ReasonUnsupported,
		},
		"the node of the volume has no sidecar":   {sidecars{liar}, "", "", ReasonNoSidecar},
		"only the controller service can reclaim": {sidecars{leader}, "leader", "", "leader"},
		"only the controller service has reclaimed": {
			sidecars{leader}, "leader", ConditionController, complete,
		},
		"no controller service":          {sidecars{used}, "", ConditionNode, complete},
		"a pretended controller service": {sidecars{liar, used}, "", ConditionNode, complete},
		"the leader cannot reclaim": {
			sidecars{liar, used, lame}, "leader", ConditionNode, complete,
		},
		"the leader can reclaim":      {sidecars{used, leader}, "leader", ConditionNode, "leader"},
		"the leader is not connected": {sidecars{liar, used}, "leader", ConditionNode, ReasonNoSidecar},
		"no sidecar is connected":     {nil, "", "", ReasonNoSidecar},
	} {
		r, _ := newReconciler(t, attachment())
		r.Sidecars = fakeSidecars{all: one.sidecars, leader: one.leader}
		j := &v1alpha1.ReclaimSpaceJob{}
		if one.done != "" {
			r.set(j, one.done, true, ReasonReclaimed, "")
		}
		next, err := r.plan(t.Context(), j, volumeFor("1"))
		got := complete
		if problem, ok := errors.AsType[*obstacle](err); ok {
			got = problem.reason
		} else if next.sidecar != nil {
			got = next.sidecar.Pod.Name
		}
		assert.Check(t, is.Equal(got, one.want), "%s: %+v with the error %v", name, next, err)
	}
}

// Nothing can be reclaimed on a node that does not exist, so the job succeeds. The controller
// service is called first, if it can reclaim space. If no sidecar can, one may connect later.
func TestJobOfAnUnusedVolumeSucceeds(t *testing.T) {
	t.Parallel()
	const success = v1alpha1.ReclaimSpaceSucceeded + " The volume is attached to no node"
	node := connected("node", "used", connection.NodeService, connection.ReclaimOnline)
	plain := connected("plain", "used", connection.NodeService)
	other := connected("other", "c", connection.ControllerService, connection.ReclaimOffline)
	for _, one := range []struct {
		done     bool // the call of the controller service
		sidecars []*connection.Sidecar
		reason   string
	}{
		{false, []*connection.Sidecar{node}, ReasonNotInUse},
		{false, []*connection.Sidecar{node, other}, ReasonNoSidecar},
		{true, []*connection.Sidecar{node, other}, ReasonNotInUse},
		{false, []*connection.Sidecar{plain}, ReasonUnsupported},
	} {
		job := jobFor("data")
		r, w := newReconciler(t, job, claimOfTenant("1", corev1.ClaimBound), volumeFor("1"))
		r.Sidecars = fakeSidecars{all: one.sidecars, leader: "elsewhere"}
		if one.done {
			w.read(job)
			r.set(job, ConditionController, false, ReasonUnimplemented, "")
			w.must(w.Status().Update(t.Context(), job))
		}
		w.reconcile(r, job)
		succeeded := job.Status.Result == v1alpha1.OperationSucceeded && job.Status.Message == success
		assert.Check(t, job.Status.Reason == one.reason && succeeded == (one.reason == ReasonNotInUse),
			"the status is %+v, want the reason %s", job.Status, one.reason)
	}
}

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
		got := l.acquire(job(one.job), on(one.driver, "", job(one.job)))
		assert.Check(t, is.Equal(got, one.want), "job %s of driver %s", one.job, one.driver)
	}
	l.wantWoken(t)
	l.release(on("b", "", job("4"))) // driver a has two calls, so job 5 is next
	l.wantWoken(t, "5")
	assert.Check(t, !l.acquire(job("6"), on("b", "", job("6"))), "it gets the call of a woken job")
	assert.Check(t, l.acquire(job("5"), on("b", "", job("5"))), "the woken job gets no call")
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
		got := acquire(in("many", n))
		assert.Assert(t, got == (n < 2) && l.blocked(in("many", n)) != got, "job %d: %v", n, got)
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
		assert.Check(t, got != slices.Contains(waits, n) && !l.blocked(name), "job %d on %s", n, node)
	}
	l.release(on("a", "other", job("4")))
	l.wantWoken(t, "6")
	moved := l.acquire(job("6"), on("a", "hung", job("6")))
	assert.Check(t, !moved, "the node that hangs gets a third call")
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
	assert.Check(t, l.acquire(job("last"), on("a", "", job("last"))), "it gets no call")
	l.release(on("a", "", job("last")))
	assert.Check(t, len(l.calls)+len(l.waiting)+len(l.last) == 0, "left: %+v", l.limits)
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
