package reclaimspace

import "k8s.io/apimachinery/pkg/types"

// maxPerNode limits the calls of one driver on one node. A node that accepts calls and never
// answers would otherwise use all slots of the driver.
const maxPerNode = 2

// place is a node on which a driver has calls.
type place struct{ driver, node string }

// places limits the calls on each node. Jobs for a node with too many calls wait without a slot of
// the driver. The mutex of slots protects it.
type places struct {
	calls    map[place]int // that run, or are reserved
	reserved map[types.NamespacedName]place
	waiting  map[types.NamespacedName]place
	// checked contains the jobs of waiting whose node is looked up again. They have a slot of the
	// driver, or wait for one. They do not lose their position here.
	checked map[types.NamespacedName]bool
	queues  map[place]*queue
}

func newPlaces() places {
	return places{
		calls: map[place]int{}, reserved: map[types.NamespacedName]place{},
		waiting: map[types.NamespacedName]place{}, checked: map[types.NamespacedName]bool{},
		queues: map[place]*queue{},
	}
}

// check notes that a job asks for a slot of a driver. If it waits for a node, its volume may be on
// another node now.
func (p *places) check(driver string, job types.NamespacedName) {
	at, ok := p.waiting[job]
	switch {
	case !ok:
	case at.driver != driver:
		p.remove(job)
	default:
		p.checked[job] = true
	}
}

// enter returns whether a job that has a slot may start its call at a place. If not, it waits.
func (p *places) enter(at place, job types.NamespacedName, limit int) bool {
	if reserved, ok := p.reserved[job]; ok && reserved == at {
		delete(p.reserved, job)
		return true
	}
	if p.calls[at] < limit {
		p.remove(job)
		p.calls[at]++
		return true
	}
	if _, ok := p.waiting[job]; ok {
		delete(p.checked, job)
		return false
	}
	if p.queues[at] == nil {
		p.queues[at] = newQueue()
	}
	p.queues[at].add(job)
	p.waiting[job] = at
	return false
}

// leave ends a call or a reservation. It returns the job that gets the reservation, if one waits,
// and whether that job is checked.
func (p *places) leave(at place) (job types.NamespacedName, checked, ok bool) {
	if p.queues[at] != nil {
		job, _ = p.queues[at].next(func(string) bool { return true })
		checked = p.checked[job]
		p.forget(job, at)
		p.reserved[job] = at
		return job, checked, true
	}
	if p.calls[at]--; p.calls[at] == 0 {
		delete(p.calls, at)
	}
	return types.NamespacedName{}, false, false
}

// remove removes a job that waits.
func (p *places) remove(job types.NamespacedName) {
	if at, ok := p.waiting[job]; ok {
		p.queues[at].remove(job)
		p.forget(job, at)
	}
}

func (p *places) forget(job types.NamespacedName, at place) {
	delete(p.waiting, job)
	delete(p.checked, job)
	if len(p.queues[at].jobs) == 0 {
		delete(p.queues, at)
	}
}

// enter returns whether a job that has a slot may start its call on a node; "" is the controller
// service. If not, the job has no slot any more, and waits until a call on the node ends.
func (s *slots) enter(driver, node string, job types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{driver, node}
	if reserved, ok := s.places.reserved[job]; ok && reserved != at {
		s.unreserve(job)
		s.grant(types.NamespacedName{})
	}
	if s.places.waiting[job] != at {
		s.places.remove(job)
	}
	_, each := s.limits()
	if node == "" || s.places.enter(at, job, min(maxPerNode, half(each))) {
		return true
	}
	s.free(driver, job)
	s.grant(types.NamespacedName{})
	s.report(driver)
	return false
}

// leave ends a call on a node. The next job for the node waits for a slot of the driver again. It
// precedes the other jobs of its namespace, because nobody else can use its reservation.
func (s *slots) leave(at place) {
	if at.node == "" {
		return
	}
	next, checked, ok := s.places.leave(at)
	if !ok {
		return
	}
	if !checked {
		s.enqueue(at.driver, next)
	}
	if _, waits := s.waiting[next]; waits {
		s.queues[at.driver].advance(next)
	}
}

// unreserve ends the reservation of a job that does not use it.
func (s *slots) unreserve(job types.NamespacedName) {
	if at, ok := s.places.reserved[job]; ok {
		delete(s.places.reserved, job)
		s.leave(at)
	}
}

// half returns the calls of a driver that one namespace or node may use, rounded up, so that a
// limit of 1 lets jobs run.
func half(limit int) int { return (limit + 1) / 2 }
