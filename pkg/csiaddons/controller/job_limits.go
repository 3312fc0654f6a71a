package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// maxPerNode limits the calls of one driver on one node. A node that accepts calls and never
// answers would otherwise use all calls of the driver.
const maxPerNode = 2

// limits counts the calls that reclaim space: all of them, and those of a driver, of a namespace
// and of a node of the driver. A job that may not start its call waits. The next call is for the
// namespace whose last call started first, and there for the job that has waited longest. So
// namespaces take turns. It is safe for concurrent use.
type limits struct {
	// all and perDriver are the maximum numbers of calls.
	all, perDriver int
	// wake reconciles a job that may start its call now. It must not block.
	wake    func(types.NamespacedName)
	metrics *connection.Metrics

	mu sync.Mutex
	// calls are the numbers of calls that run: of a driver in a namespace, of a driver on a node, of a
	// driver, and all.
	calls   map[slot]int
	waiting map[types.NamespacedName]waiter
	// last contains the number of the last call of each namespace, while jobs wait.
	last map[slot]uint64
	// count numbers calls, and jobs that begin to wait.
	count uint64
}

// slot is what a call needs. Its node is "" for a call of the controller service.
type slot struct{ driver, namespace, node string }

// tenant and host are the parts of a slot that a namespace and a node have.
func (s slot) tenant() slot { return slot{driver: s.driver, namespace: s.namespace} }
func (s slot) host() slot   { return slot{driver: s.driver, node: s.node} }

// waiter is a job that waits.
type waiter struct {
	slot

	since uint64
}

func newLimits(all, perDriver int, wake func(types.NamespacedName), m *connection.Metrics,
) *limits {
	return &limits{
		all: all, perDriver: perDriver, wake: wake, metrics: m, calls: map[slot]int{},
		last: map[slot]uint64{}, waiting: map[types.NamespacedName]waiter{},
	}
}

// acquire returns whether a job may start its call. If not, the job waits.
func (l *limits) acquire(job types.NamespacedName, s slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.report(s.driver)
	found, ok := l.waiting[job]
	if !ok {
		l.count++
		found.since = l.count
	}
	moved := ok && found.slot != s
	found.slot = s
	l.waiting[job] = found
	var next types.NamespacedName
	if l.free(s) {
		next, _ = l.next()
	}
	if next != job {
		if moved { // it does not use the call for which it may have been woken
			l.wakeNext()
		}
		return false
	}
	l.count++
	l.last[s.tenant()] = l.count
	l.add(s, 1)
	l.drop(job)
	return true
}

// blocked returns whether a job waits and may not start its call on any node. The volume of a job
// that waits for its node may have moved to another one.
func (l *limits) blocked(job types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.waiting[job]
	return ok && !l.free(found.tenant())
}

func (l *limits) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

func (l *limits) release(s slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(s, -1)
	l.report(s.driver)
	l.wakeNext()
}

// forget removes a job that does not wait any more.
func (l *limits) forget(job types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found, ok := l.waiting[job]; ok {
		l.drop(job)
		l.report(found.driver)
	}
}

// wakeNext wakes the job that may start its call now, if one waits. That job wakes the next.
func (l *limits) wakeNext() {
	if job, ok := l.next(); ok {
		l.wake(job)
	}
}

func (l *limits) next() (job types.NamespacedName, ok bool) {
	var best waiter
	for name, one := range l.waiting {
		last, bestLast := l.last[one.tenant()], l.last[best.tenant()]
		earlier := last < bestLast || last == bestLast && one.since < best.since
		if (!ok || earlier) && l.free(one.slot) {
			job, best, ok = name, one, true
		}
	}
	return job, ok
}

// free returns whether the limits permit a call. A namespace may use half of the calls of a driver,
// so that long calls of one do not stop the jobs of all others.
func (l *limits) free(s slot) bool {
	half := (l.perDriver + 1) / 2
	return l.calls[slot{}] < l.all && l.calls[slot{driver: s.driver}] < l.perDriver &&
		l.calls[s.tenant()] < half && (s.node == "" || l.calls[s.host()] < min(maxPerNode, half))
}

// drop removes a job that waits. If there is a free call, it wakes the next job.
func (l *limits) drop(job types.NamespacedName) {
	delete(l.waiting, job)
	if len(l.waiting) == 0 {
		clear(l.last)
	}
	l.wakeNext()
}

func (l *limits) add(s slot, calls int) {
	counted := []slot{{}, {driver: s.driver}, s.tenant()}
	if s.node != "" {
		counted = append(counted, s.host())
	}
	for _, one := range counted {
		l.calls[one] += calls
		if l.calls[one] == 0 {
			delete(l.calls, one)
		}
	}
}

func (l *limits) report(driver string) {
	l.metrics.Running(driver, l.calls[slot{driver: driver}], len(l.waiting))
}
