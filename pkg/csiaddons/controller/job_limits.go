package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// checksPerLook is after how many checks a job that waits looks again for the node of its volume,
// which may have moved: five minutes or more.
const checksPerLook = 25

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

	mu      sync.Mutex
	calls   int
	drivers map[string]int
	tenants map[tenant]int
	nodes   map[node]int
	waiting map[types.NamespacedName]waiter
	// last contains the number of the last call of each namespace, while jobs wait.
	last map[tenant]uint64
	// count numbers calls, and jobs that begin to wait.
	count uint64
}

// tenant is a namespace that uses a driver.
type tenant struct{ driver, namespace string }

// node is a node on which a driver has calls.
type node struct{ driver, name string }

// slot is what a call needs. Its node is "" for a call of the controller service.
type slot struct {
	tenant

	node string
}

// waiter is a job that waits.
type waiter struct {
	slot

	since uint64
	// checks counts the checks since the job has looked for its node.
	checks int
}

func newLimits(all, perDriver int, wake func(types.NamespacedName), m *connection.Metrics,
) *limits {
	return &limits{
		all: all, perDriver: perDriver, wake: wake, metrics: m, drivers: map[string]int{},
		tenants: map[tenant]int{}, nodes: map[node]int{}, last: map[tenant]uint64{},
		waiting: map[types.NamespacedName]waiter{},
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
	found.slot, found.checks = s, 0
	l.waiting[job] = found
	if !l.free(s) {
		return false
	}
	if next, _ := l.next(); next != job {
		return false
	}
	l.count++
	l.last[s.tenant] = l.count
	l.add(s, 1)
	l.drop(job)
	return true
}

// blocked returns whether a job waits and may still not start its call. It lets the job look again
// for its node from time to time.
func (l *limits) blocked(job types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.waiting[job]
	if !ok || l.free(found.slot) {
		return false
	}
	found.checks++
	l.waiting[job] = found
	return found.checks < checksPerLook
}

// release ends a call.
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

// next returns the job that may start its call next.
func (l *limits) next() (job types.NamespacedName, ok bool) {
	var best waiter
	if l.calls >= l.all {
		return job, false
	}
	for name, one := range l.waiting {
		turn, of := l.last[one.tenant], l.last[best.tenant]
		earlier := turn < of || turn == of && one.since < best.since
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
	return l.calls < l.all && l.drivers[s.driver] < l.perDriver && l.tenants[s.tenant] < half &&
		(s.node == "" || l.nodes[node{s.driver, s.node}] < min(maxPerNode, half))
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
	l.calls += calls
	count(l.drivers, s.driver, calls)
	count(l.tenants, s.tenant, calls)
	count(l.nodes, node{s.driver, s.node}, calls)
}

func count[K comparable](counts map[K]int, key K, change int) {
	counts[key] += change
	if counts[key] == 0 {
		delete(counts, key)
	}
}

func (l *limits) report(driver string) {
	l.metrics.Running(driver, l.drivers[driver], len(l.waiting))
}
