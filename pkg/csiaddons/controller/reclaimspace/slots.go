package reclaimspace

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
)

// slots limits the calls that run at the same time: overall, for each driver, for each namespace of
// a driver, and for each node of a driver. Jobs without a slot wait: namespaces get their turns one
// after another, and the jobs of a namespace in their order. It is safe for concurrent use.
type slots struct {
	// limits returns the maximum number of calls of all drivers, and of one driver.
	limits func() (all, driver int)
	// wake reconciles a job that has got a slot. It must not block.
	wake    func(types.NamespacedName)
	metrics *metrics.Metrics

	mu      sync.Mutex
	all     int
	used    map[string]int // by driver
	held    map[tenant]int
	granted map[types.NamespacedName]string // drivers of jobs that have got a slot and not taken it
	waiting map[types.NamespacedName]string // drivers of jobs that wait
	queues  map[string]*queue               // by driver
	// order contains the drivers of queues. The first is asked first.
	order  []string
	places places
}

// tenant is a namespace that uses a driver.
type tenant struct{ driver, namespace string }

// acquire returns whether the job has a slot. A job without a slot waits. A job that comes later
// does not pass those that wait.
func (s *slots) acquire(driver string, job types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used, s.held = map[string]int{}, map[tenant]int{}
		s.granted, s.waiting = map[types.NamespacedName]string{}, map[types.NamespacedName]string{}
		s.queues, s.places = map[string]*queue{}, newPlaces()
	}
	if known, ok := s.known(job); ok && known != driver {
		s.drop(job) // the claim of the job has another volume now
	}
	s.places.check(driver, job)
	if _, ok := s.known(job); !ok {
		s.enqueue(driver, job)
	}
	s.grant(job)
	_, ok := s.granted[job]
	delete(s.granted, job)
	s.report(driver)
	return ok
}

// report writes metrics.
func (s *slots) report(driver string) {
	places := len(s.places.waiting) - len(s.places.checked)
	s.metrics.Running(driver, s.used[driver], len(s.waiting)+places)
}

// known returns the driver of a job that waits or has got a slot.
func (s *slots) known(job types.NamespacedName) (string, bool) {
	if driver, ok := s.granted[job]; ok {
		return driver, true
	}
	driver, ok := s.waiting[job]
	return driver, ok
}

func (s *slots) enqueue(driver string, job types.NamespacedName) {
	if s.queues[driver] == nil {
		s.queues[driver] = newQueue()
		s.order = append(s.order, driver)
	}
	s.waiting[job] = driver
	s.queues[driver].add(job)
}

// grant gives free slots to jobs that wait, and wakes all of them except one.
func (s *slots) grant(except types.NamespacedName) {
	all, each := s.limits()
	for misses := 0; s.all < all && misses < len(s.order); {
		driver := s.order[0]
		s.order = append(s.order[1:], driver)
		job, ok := s.next(driver, each)
		if !ok {
			misses++
			continue
		}
		misses = 0
		s.all++
		s.used[driver]++
		s.held[tenant{driver, job.Namespace}]++
		delete(s.waiting, job)
		s.granted[job] = driver
		s.report(driver)
		if job != except {
			s.wake(job)
		}
	}
}

// next removes a job from the queue of a driver, if it may get a slot. One namespace may use half
// of the slots of a driver, rounded up, so that long calls of one do not stop the jobs of all
// others, unless there is only one slot.
func (s *slots) next(driver string, limit int) (types.NamespacedName, bool) {
	if s.used[driver] >= limit {
		return types.NamespacedName{}, false
	}
	return s.queues[driver].next(func(namespace string) bool {
		return s.held[tenant{driver, namespace}] < half(limit)
	})
}

// release frees the slot of a job, and wakes jobs that can get it. The node is that of its call, or
// "" without a call on a node.
func (s *slots) release(driver, node string, job types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreserve(job)
	if s.places.checked[job] {
		s.places.remove(job) // it has ended without a call
	}
	s.leave(place{driver, node})
	s.free(driver, job)
	s.grant(types.NamespacedName{})
	s.report(driver)
}

// forget removes a job that does not need a slot any more.
func (s *slots) forget(job types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places.remove(job)
	if driver, ok := s.known(job); ok {
		s.drop(job)
		s.grant(types.NamespacedName{})
		s.report(driver)
	}
}

func (s *slots) drop(job types.NamespacedName) {
	s.unreserve(job)
	if driver, ok := s.granted[job]; ok {
		delete(s.granted, job)
		s.free(driver, job)
		return
	}
	s.queues[s.waiting[job]].remove(job)
	delete(s.waiting, job)
}

func (s *slots) free(driver string, job types.NamespacedName) {
	s.all--
	s.used[driver]--
	of := tenant{driver, job.Namespace}
	if s.held[of]--; s.held[of] == 0 {
		delete(s.held, of)
	}
}
