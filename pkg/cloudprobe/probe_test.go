package cloudprobe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

func TestErrorOfTheAPIServerRepeatsNoProbe(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]opv1.OperatorCondition{
		"apply": nil, "removal": {disabled("Old", "old")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clocktesting.NewFakeClock(time.Unix(0, 0))
			f := newFixture(t, c, before...)
			f.finds(available())
			f.Trigger(nil)
			f.client.RefuseWrites(3)
			for range 3 {
				if err := f.sync(t.Context()); err == nil {
					t.Fatal("no error although the API server refuses")
				}
				c.Step(time.Second)
			}
			if len(f.eventReasons()) != 0 {
				t.Errorf("events %q of conditions that were not written", f.eventReasons())
			}
			assert.NilError(t, f.sync(t.Context()))
			diff := gocmp.Diff([]opv1.OperatorCondition{reachable()}, f.client.SortedConditions(t))
			assert.Check(t, diff == "", "conditions (-want +got):\n%s", diff)
			if probes := f.requests.Load(); probes != 1 || f.starts != 1 {
				t.Errorf("%d probes and %d starts, want one each", probes, f.starts)
			}
		})
	}
}

func TestDeployedDriverIsDetectedBeforeTheFirstProbe(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	f := newFixture(t, c)
	f.finds(noResponse())
	failure := errors.New("API server is down")
	f.Gate.Deployed = func(context.Context) (bool, error) { return false, failure }
	for range 2 {
		if err := f.sync(t.Context()); !errors.Is(err, failure) {
			t.Fatalf("got %v, want %v", err, failure)
		}
	}
	if f.requests.Load() != 0 || f.client.Writes() != 0 || f.starts != 0 {
		t.Errorf("%d probes, %d writes, %d starts without knowing what is deployed",
			f.requests.Load(), f.client.Writes(), f.starts)
	}
	f.deployed()
	assert.NilError(t, f.sync(t.Context()))
	if f.starts != 1 || f.requests.Load() != 1 {
		t.Errorf("%d starts and %d probes, want one each", f.starts, f.requests.Load())
	}
}

func TestOnlyManagedDriversProbe(t *testing.T) {
	t.Parallel()
	for state, want := range map[opv1.ManagementState]int32{
		opv1.Managed: 1, opv1.Unmanaged: 0, opv1.Removed: 0,
		// The controllers of library-go reconcile in these states.
		opv1.Force: 0, "": 0,
	} {
		t.Run(cmp.Or(string(state), "none"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, clocktesting.NewFakeClock(time.Unix(0, 0))).deployed()
			var driver opv1.ClusterCSIDriver
			driver.Spec.ManagementState = state
			f.client.Set(t, &driver)
			f.finds(available())
			assert.NilError(t, f.sync(t.Context()))
			probes := f.requests.Load()
			if probes != want || f.starts != int(want) || f.client.Writes() != int(want) {
				t.Errorf("%d probes, %d starts, %d writes, want %d each", probes, f.starts, f.client.Writes(),
					want)
			}
		})
	}
}

func TestFirstProbeIsReportedAsPending(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.RealClock{})
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f.send = func(context.Context) (string, Availability, error) {
			<-release
			return "", Availability{Available: true}, nil
		}
		done := make(chan error)
		go func() { done <- f.sync(t.Context()) }()
		<-time.After(firstPatience - time.Millisecond)
		if got := f.client.SortedConditions(t); len(got) != 0 {
			t.Errorf("reported too early: %v", got)
		}
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		want := []opv1.OperatorCondition{
			unreachable("CloudUnreachable", ErrPending.Error()),
			disabled("CloudUnreachable", ErrPending.Error()),
		}
		if diff := gocmp.Diff(want, f.client.SortedConditions(t)); diff != "" {
			t.Errorf("conditions while the probe is pending (-want +got):\n%s", diff)
		}
		close(release)
		assert.NilError(t, <-done)
		diff := gocmp.Diff([]opv1.OperatorCondition{reachable()}, f.client.SortedConditions(t))
		assert.Check(t, diff == "", "conditions after the result (-want +got):\n%s", diff)
	})
}

func TestProbeOfACloudThatHangsIsBoundedAndReportedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.RealClock{})
	synctest.Test(t, func(t *testing.T) {
		f.send = func(ctx context.Context) (string, Availability, error) {
			<-ctx.Done()
			return "", Availability{}, &openstack.Error{
				Reason: openstack.CloudUnreachable, Message: "no response in time",
			}
		}
		start := time.Now()
		assert.NilError(t, f.sync(t.Context()))
		if took := time.Since(start); took != deadline {
			t.Errorf("took %v, want %v", took, deadline)
		}
		before := f.client.Writes()
		for range 3 {
			assert.NilError(t, f.sync(t.Context()))
		}
		if now := f.client.Writes(); before != 2 || now != before {
			t.Errorf("%d writes at first, %d later, want 2 and none", before, now-before)
		}
	})
}

func TestLaterProbeIsReportedAsPending(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.RealClock{})
	synctest.Test(t, func(t *testing.T) {
		f.finds(available())
		assert.NilError(t, f.sync(t.Context()))
		<-time.After(interval)
		release := make(chan struct{})
		f.send = func(context.Context) (string, Availability, error) {
			<-release
			return "", Availability{}, noResponse().err
		}
		done := make(chan error)
		go func() { done <- f.sync(t.Context()) }()
		<-time.After(laterPatience - time.Millisecond)
		diff := gocmp.Diff([]opv1.OperatorCondition{reachable()}, f.client.SortedConditions(t))
		assert.Check(t, diff == "", "reported too early (-want +got):\n%s", diff)
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		want := []opv1.OperatorCondition{unreachable("CloudUnreachable", ErrPending.Error())}
		if diff := gocmp.Diff(want, f.client.SortedConditions(t)); diff != "" {
			t.Errorf("conditions while the probe is pending (-want +got):\n%s", diff)
		}
		close(release)
		assert.NilError(t, <-done)
	})
}

func TestChangedAccessIsProbedAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clocktesting.NewFakeClock(time.Unix(0, 0)))
	f.finds(noResponse())
	for i, step := range []struct {
		generation int64
		probes     int32
	}{{0, 1}, {0, 1}, {1, 2}, {1, 2}, {2, 3}, {1, 4}} {
		f.access.generation.Store(step.generation)
		assert.NilError(t, f.sync(t.Context()))
		if got := f.requests.Load(); got != step.probes {
			t.Errorf("step %d: %d probes, want %d", i, got, step.probes)
		}
	}
}

// The first probe waits until the access is known. A later probe may use the access from before a
// change.
func TestChangeOfTheAccessDuringAProbe(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clocktesting.NewFakeClock(time.Unix(0, 0)))
	f.send = func(context.Context) (string, Availability, error) {
		f.access.generation.Store(min(f.access.generation.Load()+1, 3))
		return "", Availability{Available: true}, nil
	}
	const trigger = "trigger"
	for i, step := range []struct {
		cause  string
		probes int32
	}{
		{"poll", 1},
		{"notification of the first test", 1},
		{trigger, 2},
		{"notification of a change", 3},
		{"notification of a change", 4},
		{"no change", 4},
	} {
		if step.cause == trigger {
			f.Trigger(nil)
		}
		assert.NilError(t, f.sync(t.Context()))
		if got := f.requests.Load(); got != step.probes {
			t.Errorf("step %d, %s: %d probes, want %d", i, step.cause, got, step.probes)
		}
	}
}

func TestNotificationAboutTheAccessTriggersAProbe(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.RealClock{})
	f.finds(available())
	f.run(t)
	for i := range int32(3) {
		// The second poll comes later.
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, interval/2, true,
			func(context.Context) (bool, error) { return f.requests.Load() == i+1, nil })
		if err != nil {
			t.Fatalf("%d probes after %d changes", f.requests.Load(), i)
		}
		f.access.generation.Add(1)
		f.access.Notify()
	}
}

func TestSubscribersReceiveEachResult(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	f := newFixture(t, c)
	f.send = func(context.Context) (string, Availability, error) {
		return "zones", Availability{Available: true}, nil
	}
	for range 2 {
		assert.NilError(t, f.sync(t.Context()))
		f.finds(refused())
		c.Step(interval)
	}
	want := []Result[string]{
		{Found: "zones", Availability: Availability{Available: true}}, {Err: refused().err},
	}
	if !slices.EqualFunc(f.results, want, func(a, b Result[string]) bool {
		return a.Found == b.Found && a.Availability == b.Availability &&
			fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
	}) {
		t.Errorf("results are %v, want %v", f.results, want)
	}
}

// TestProbeWithoutGate has no condition that disables a driver, and none that a probe is pending.
func TestProbeWithoutGate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.RealClock{})
	synctest.Test(t, func(t *testing.T) {
		f.Gate = nil
		f.send = func(context.Context) (string, Availability, error) {
			<-time.After(deadline)
			return "", Availability{}, noResponse().err
		}
		assert.NilError(t, f.sync(t.Context()))
		want := []opv1.OperatorCondition{unreachable("CloudUnreachable", "no route")}
		if diff := gocmp.Diff(want, f.client.SortedConditions(t)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		if f.client.Writes() != 1 {
			t.Errorf("%d writes, want one", f.client.Writes())
		}
	})
}
