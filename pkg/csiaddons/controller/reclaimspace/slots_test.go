package reclaimspace

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
)

// job returns a job in a namespace of its own.
func job(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: name, Name: name}
}

// newSlots returns slots for three calls, two of each driver, and the jobs that they wake.
func newSlots(tb testing.TB) (*slots, *[]string) {
	tb.Helper()
	recorded, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		tb.Fatal(err)
	}
	woken := &[]string{}
	return &slots{
		limits:  func() (int, int) { return 3, 2 },
		wake:    func(name types.NamespacedName) { *woken = append(*woken, name.Name) },
		metrics: recorded,
	}, woken
}

func TestSlotsLimitEachDriverAndAllDrivers(t *testing.T) {
	t.Parallel()
	s, woken := newSlots(t)
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
		if got := s.acquire(one.driver, job(one.job)); got != one.want {
			t.Errorf("job %s of driver %s gets a slot: %v, want %v", one.job, one.driver, got, one.want)
		}
	}
	s.release("b", "", job("4")) // a has no free slot, so the second in the queue is next
	s.release("a", "", job("1"))
	if diff := cmp.Diff([]string{"5", "3"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
	if s.acquire("b", job("6")) || !s.acquire("b", job("5")) || !s.acquire("a", job("3")) {
		t.Error("the jobs that were woken do not get the slots")
	}
}

func TestSlotsSkipADeletedJob(t *testing.T) {
	t.Parallel()
	s, woken := newSlots(t)
	for _, name := range []string{"1", "2", "deleted", "also deleted", "3"} {
		s.acquire("a", job(name))
	}
	s.forget(job("also deleted"))
	s.release("a", "", job("1"))
	s.forget(job("deleted"))
	s.forget(job("never waited"))
	if diff := cmp.Diff([]string{"deleted", "3"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
	if s.acquire("a", job("4")) || len(s.waiting) != 1 || len(s.queues["a"].jobs) != 1 {
		t.Errorf("the slots contain %+v", s)
	}
}

// A tenant with many jobs neither delays the jobs of others behind all of them, nor uses all slots.
func TestNamespacesGetTheirTurnsOneAfterAnother(t *testing.T) {
	t.Parallel()
	s, woken := newSlots(t)
	s.limits = func() (int, int) { return 4, 4 }
	in := func(namespace string, n int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%s%d", namespace, n)}
	}
	for n := range 100 {
		if got := s.acquire("a", in("many", n)); got != (n < 2) {
			t.Fatalf("job %d of a namespace gets a slot: %v; it may use half of four", n, got)
		}
	}
	if !s.acquire("a", in("few", 0)) || !s.acquire("a", in("single", 0)) ||
		s.acquire("a", in("few", 1)) {
		t.Fatal("the slots that a namespace may not use are not for others")
	}
	s.release("a", "", in("many", 0))
	s.release("a", "", in("many", 1))
	s.release("a", "", in("single", 0))
	if diff := cmp.Diff([]string{"many2", "few1", "many3"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
}

func TestJobThatComesLaterDoesNotPassTheQueue(t *testing.T) {
	t.Parallel()
	s, _ := newSlots(t)
	s.limits = func() (int, int) { return 1, 1 }
	s.acquire("a", job("runs"))
	s.acquire("a", job("waits"))
	s.release("a", "", job("runs"))
	if s.acquire("a", job("late")) || !s.acquire("a", job("waits")) {
		t.Error("a job that comes later takes the slot of a job that waits")
	}
}

func TestRaisedLimitHelpsAtTheNextTurn(t *testing.T) {
	t.Parallel()
	s, _ := newSlots(t)
	limit := 1
	s.limits = func() (int, int) { return limit, limit }
	s.acquire("a", job("runs"))
	s.acquire("a", job("waits"))
	limit = 2
	if !s.acquire("a", job("waits")) {
		t.Error("the job waits although there is a slot")
	}
}

// The work for a job does not depend on the number of jobs that wait.
func TestManyWaitingJobsAreCheap(t *testing.T) {
	t.Parallel()
	const jobs, namespaces = 10_000, 5
	q := newQueue()
	for n := range jobs {
		q.add(types.NamespacedName{Namespace: fmt.Sprint(n % namespaces), Name: fmt.Sprint(n)})
	}
	asked := 0
	for n := range jobs / namespaces {
		found, ok := q.next(func(namespace string) bool {
			asked++
			return namespace == "4" // the others have too many calls
		})
		if want := fmt.Sprint(n*namespaces + 4); !ok || found.Name != want {
			t.Fatalf("job %s is next, want %s", found.Name, want)
		}
	}
	if most := jobs / namespaces * namespaces; asked > most {
		t.Errorf("the queue was asked %d times about namespaces, more than %d", asked, most)
	}
}

// BenchmarkWaitingJob measures a job that waits twice and is deleted, while others wait.
func BenchmarkWaitingJob(b *testing.B) {
	for _, others := range []int{10, 100_000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			s, _ := newSlots(b)
			in := func(n int) types.NamespacedName {
				return types.NamespacedName{Namespace: "tenant", Name: fmt.Sprint(n)}
			}
			for n := range others {
				s.acquire("a", in(n))
			}
			for b.Loop() {
				s.acquire("a", in(-1))
				s.acquire("a", in(-1))
				s.forget(in(-1))
			}
		})
	}
}
