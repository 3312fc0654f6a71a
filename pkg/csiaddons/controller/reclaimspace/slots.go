package reclaimspace

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
)

// slots limits the calls that run at the same time, overall and for each driver. Jobs that find no
// slot wait in their order. It is safe for concurrent use.
type slots struct {
	// limits returns the maximum number of calls of all drivers, and of one driver.
	limits func() (all, driver int)
	// wake reconciles a job that waits. It must not block.
	wake    func(types.NamespacedName)
	metrics *metrics.Metrics

	mu      sync.Mutex
	all     int
	used    map[string]int // by driver
	waiting []waiter
}

type waiter struct {
	driver string
	job    types.NamespacedName
}

// acquire returns whether the job got a slot. A job without a slot waits.
func (s *slots) acquire(driver string, job types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = map[string]int{}
	}
	this := waiter{driver: driver, job: job}
	at := slices.Index(s.waiting, this)
	free := s.free(driver)
	switch {
	case free && at >= 0:
		s.waiting = slices.Delete(s.waiting, at, at+1)
	case !free && at < 0:
		s.waiting = append(s.waiting, this)
	}
	if free {
		s.all++
		s.used[driver]++
	}
	s.metrics.Running(driver, s.used[driver], len(s.waiting))
	return free
}

func (s *slots) free(driver string) bool {
	all, each := s.limits()
	return s.all < all && s.used[driver] < each
}

// release frees the slot of a call, and wakes the next job that can get it.
func (s *slots) release(driver string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	s.used[driver]--
	s.metrics.Running(driver, s.used[driver], len(s.waiting))
	s.wakeNext()
}

// forget removes a job that waits and does not need a slot any more.
func (s *slots) forget(job types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := len(s.waiting)
	s.waiting = slices.DeleteFunc(s.waiting, func(w waiter) bool { return w.job == job })
	if len(s.waiting) < waited {
		s.wakeNext()
	}
}

func (s *slots) wakeNext() {
	for _, next := range s.waiting {
		if s.free(next.driver) {
			s.wake(next.job)
			return
		}
	}
}
