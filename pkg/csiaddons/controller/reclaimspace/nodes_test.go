package reclaimspace

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// A node that never answers keeps its calls. Jobs for other nodes still run.
func TestNodeThatHangsUsesTwoSlots(t *testing.T) {
	t.Parallel()
	s, woken := newSlots(t)
	s.limits = func() (int, int) { return 10, 10 }
	for n := range 8 {
		name := job(fmt.Sprintf("hung%d", n))
		if !s.acquire("a", name) {
			t.Fatalf("job %d for the node has no slot", n)
		}
		if got := s.enter("a", "hung", name); got != (n < 2) {
			t.Errorf("job %d starts a call on the node: %v", n, got)
		}
	}
	if s.used["a"] != 2 || len(s.places.waiting) != 6 {
		t.Errorf("the driver uses %d slots, and %d jobs wait", s.used["a"], len(s.places.waiting))
	}
	for n := range 8 {
		name := job(fmt.Sprintf("other%d", n))
		if !s.acquire("a", name) || !s.enter("a", fmt.Sprint("node-", n), name) {
			t.Errorf("job %d for another node has to wait", n)
		}
	}
	s.forget(job("hung2"))
	s.release("a", "hung", job("hung0"))
	if diff := cmp.Diff([]string{"hung3"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
	if !s.acquire("a", job("hung3")) || !s.enter("a", "hung", job("hung3")) {
		t.Error("the job that was woken does not start its call")
	}
}

// A job that is woken for a node and does not call it passes its turn on.
func TestReservationOnANodePassesOn(t *testing.T) {
	t.Parallel()
	s, woken := newSlots(t)
	s.limits = func() (int, int) { return 10, 10 }
	names := []types.NamespacedName{}
	for n := range 6 {
		names = append(names, job(fmt.Sprint(n)))
		s.acquire("a", names[n])
		s.enter("a", "x", names[n])
	}
	s.release("a", "x", names[0])
	s.forget(names[2]) // is deleted
	s.acquire("a", names[3])
	s.release("a", "", names[3]) // has an obstacle
	s.acquire("a", names[4])
	if !s.enter("a", "y", names[4]) { // its volume has moved
		t.Error("the job does not start its call on the other node")
	}
	if diff := cmp.Diff([]string{"2", "3", "4", "5"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
	s.acquire("a", names[5])
	if !s.enter("a", "x", names[5]) {
		t.Error("the last job does not get the reservation")
	}
	s.release("a", "y", names[4])
	s.release("a", "x", names[1])
	s.release("a", "x", names[5])
	if s.all != 0 || len(s.waiting)+len(s.granted) != 0 || len(s.places.calls) != 0 ||
		len(s.places.reserved)+len(s.places.waiting)+len(s.places.queues) != 0 {
		t.Errorf("after the last call, the slots contain %+v", s)
	}
}

// A job that is checked again while it waits for a node looks for the node of its volume again.
func TestJobThatWaitsForANodeCanMove(t *testing.T) {
	t.Parallel()
	s, _ := newSlots(t)
	s.limits = func() (int, int) { return 10, 10 }
	for n := range 3 {
		s.acquire("a", job(fmt.Sprint(n)))
		s.enter("a", "x", job(fmt.Sprint(n)))
	}
	if !s.acquire("a", job("2")) || !s.enter("a", "y", job("2")) {
		t.Error("the job waits for the node that its volume has left")
	}
}

// A call that is reserved for a job does not wait for all jobs of the namespace of the job.
func TestReservationPrecedesTheJobsOfItsNamespace(t *testing.T) {
	t.Parallel()
	s, woken := newSlots(t)
	s.limits = func() (int, int) { return 4, 4 } // two for each namespace and node
	s.acquire("a", job("0"))
	s.enter("a", "x", job("0"))
	s.acquire("a", job("1"))
	s.enter("a", "x", job("1"))
	many := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: "many", Name: name}
	}
	for _, name := range []string{"x0", "x1"} {
		if !s.acquire("a", many(name)) || s.enter("a", "x", many(name)) {
			t.Fatalf("job %s does not wait for the node", name)
		}
	}
	for n := range 10 {
		s.acquire("a", many(fmt.Sprint(n)))
	}
	s.release("a", "x", job("0"))
	s.release("a", "x", job("1"))
	s.release("a", "", many("0"))
	s.release("a", "", many("1"))
	if diff := cmp.Diff([]string{"x0", "x1"}, *woken); diff != "" {
		t.Fatalf("woken jobs (-want +got):\n%s", diff)
	}
	for _, name := range []string{"x0", "x1"} {
		if !s.acquire("a", many(name)) || !s.enter("a", "x", many(name)) {
			t.Errorf("job %s does not use its reservation", name)
		}
		s.release("a", "x", many(name))
	}
	if diff := cmp.Diff([]string{"x0", "x1", "2", "3"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
}

// waitForNode returns slots for three calls of each driver, two of them on each node. Jobs 0 and 1
// run on node x. Jobs "first" and then "second" wait for it.
func waitForNode(t *testing.T) (*slots, *[]string) {
	t.Helper()
	s, woken := newSlots(t)
	s.limits = func() (int, int) { return 3, 3 }
	for _, name := range []string{"0", "1", "first", "second"} {
		if !s.acquire("a", job(name)) {
			t.Fatalf("job %s has no slot", name)
		}
		s.enter("a", "x", job(name))
	}
	return s, woken
}

// Each job that waits is checked again after some minutes. It does not go behind others then.
func TestCheckedJobKeepsItsTurnOnANode(t *testing.T) {
	t.Parallel()
	s, woken := waitForNode(t)
	if !s.acquire("a", job("first")) || s.enter("a", "x", job("first")) {
		t.Fatal("the job does not wait for the node again")
	}
	s.release("a", "x", job("0"))
	if diff := cmp.Diff([]string{"first"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
}

func TestCallOnANodeEndsWhileAJobIsChecked(t *testing.T) {
	t.Parallel()
	s, woken := waitForNode(t)
	if !s.acquire("a", job("first")) {
		t.Fatal("the job has no slot")
	}
	s.release("a", "x", job("0"))
	if !s.enter("a", "x", job("first")) || len(*woken) != 0 || len(s.waiting) != 0 {
		t.Errorf("the job loses its turn: woken jobs %v, waiting jobs %v", *woken, s.waiting)
	}
}

func TestCallOnANodeEndsWhileACheckedJobHasNoSlot(t *testing.T) {
	t.Parallel()
	s, woken := waitForNode(t)
	s.acquire("a", job("other"))
	if s.acquire("a", job("first")) {
		t.Fatal("the job gets a slot that is not free")
	}
	s.release("a", "x", job("0"))
	if diff := cmp.Diff([]string{"first"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
	if !s.acquire("a", job("first")) || !s.enter("a", "x", job("first")) {
		t.Error("the job does not use its reservation")
	}
}

// A job that does not need the node any more does not keep a turn there.
func TestCheckedJobLeavesTheQueueOfItsNode(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(s *slots, job types.NamespacedName){
		"obstacle": func(s *slots, job types.NamespacedName) {
			s.acquire("a", job)
			s.release("a", "", job)
		},
		"other node": func(s *slots, job types.NamespacedName) {
			s.acquire("a", job)
			s.enter("a", "y", job)
			s.release("a", "y", job)
		},
		"controller service": func(s *slots, job types.NamespacedName) {
			s.acquire("a", job)
			s.enter("a", "", job)
			s.release("a", "", job)
		},
		"other driver": func(s *slots, job types.NamespacedName) {
			s.acquire("b", job)
		},
		"deleted": func(s *slots, job types.NamespacedName) {
			s.acquire("a", types.NamespacedName{Name: "other"})
			s.acquire("a", job) // waits for a slot, too
			s.forget(job)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, woken := waitForNode(t)
			s.limits = func() (int, int) { return 4, 3 }
			check(s, job("first"))
			s.release("a", "x", job("0"))
			if diff := cmp.Diff([]string{"second"}, *woken); diff != "" {
				t.Errorf("woken jobs (-want +got):\n%s", diff)
			}
			if p := s.places; len(p.waiting)+len(p.checked)+len(p.queues) != 0 {
				t.Errorf("the places contain %+v", p)
			}
		})
	}
}
