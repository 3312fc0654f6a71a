package reclaimspace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
)

func job(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// newSlots returns slots for three calls, two of each driver, and the jobs that they wake.
func newSlots(t *testing.T) (*slots, *[]string) {
	t.Helper()
	recorded, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
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
	s.release("b") // a has no free slot, so the second in the queue is next
	s.release("a")
	if diff := cmp.Diff([]string{"5", "3"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
	if !s.acquire("b", job("5")) || !s.acquire("a", job("3")) || s.acquire("b", job("6")) {
		t.Error("the jobs that were woken do not get the slots that are free")
	}
}

func TestSlotsSkipADeletedJob(t *testing.T) {
	t.Parallel()
	s, woken := newSlots(t)
	s.acquire("a", job("1"))
	s.acquire("a", job("2"))
	s.acquire("a", job("deleted"))
	s.acquire("a", job("3"))
	s.release("a")
	s.forget(job("deleted"))
	s.forget(job("never waited"))
	if diff := cmp.Diff([]string{"deleted", "3"}, *woken); diff != "" {
		t.Errorf("woken jobs (-want +got):\n%s", diff)
	}
}
