package cloudprobe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

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
			f.MakeDue(nil)
			f.client.RefuseWrites(3)
			for range 3 {
				assert.Assert(t, f.sync(t.Context()) != nil, "no error although the API server refuses")
				c.Step(time.Second)
			}
			assert.Check(t, is.Len(f.eventReasons(), 0), "of conditions that were not written")
			assert.NilError(t, f.sync(t.Context()))
			f.wantConditions(t, reachable())
			f.wantProbes(t, 1, "after refused writes")
			assert.Check(t, is.Equal(f.starts, 1))
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
		assert.ErrorIs(t, f.sync(t.Context()), failure)
	}
	f.wantProbes(t, 0, "without knowing what is deployed")
	assert.Check(t, f.client.Writes() == 0 && f.starts == 0)
	f.deployed()
	assert.NilError(t, f.sync(t.Context()))
	f.wantProbes(t, 1, "of a deployed driver")
	assert.Check(t, is.Equal(f.starts, 1))
}

func TestOnlyManagedDriversProbe(t *testing.T) {
	t.Parallel()
	for state, want := range map[opv1.ManagementState]int{
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
			assert.NilError(t, f.Sync(t.Context(), factory.NewSyncContext("", f.events)))
			f.wantProbes(t, want, "")
			assert.Check(t, f.starts == want && f.client.Writes() == want, "starts or writes")
		})
	}
}

// Events of the object do not trigger the controller, and the next poll comes later.
func TestProbeAwaitsTheStateManaged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.RealClock{})
	f.finds(available())
	var driver opv1.ClusterCSIDriver
	driver.Spec.ManagementState = opv1.Unmanaged
	f.client.Set(t, &driver)
	syncCtx := factory.NewSyncContext("", f.events)
	assert.NilError(t, f.Sync(t.Context(), syncCtx))
	driver.Spec.ManagementState = opv1.Managed
	f.client.Set(t, &driver)
	syncCtx.Queue().Get() // waits
	assert.NilError(t, f.Sync(t.Context(), syncCtx))
	f.wantProbes(t, 1, "")
}

func TestPendingProbeIsReported(t *testing.T) {
	t.Parallel()
	first := newFixture(t, clock.RealClock{})
	synctest.Test(t, func(t *testing.T) {
		reason, message := "CloudUnreachable", ErrPending.Error()
		first.pending(t, firstPatience, unreachable(reason, message), disabled(reason, message))
		first.wantConditions(t, reachable())
	})
	later := newFixture(t, clock.RealClock{})
	synctest.Test(t, func(t *testing.T) {
		later.finds(available())
		assert.NilError(t, later.sync(t.Context()))
		<-time.After(interval)
		later.pending(t, laterPatience, unreachable("CloudUnreachable", ErrPending.Error()))
	})
}

// pending sends a probe that ends after the conditions say that it is pending, after the patience.
func (f *fixture) pending(
	t *testing.T, patience time.Duration, want ...opv1.OperatorCondition,
) {
	t.Helper()
	before, release, done := f.client.SortedConditions(t), make(chan struct{}), make(chan error)
	f.send = func(context.Context) (string, Availability, error) {
		<-release
		return "", Availability{Available: true}, nil
	}
	go func() { done <- f.sync(t.Context()) }()
	<-time.After(patience - time.Millisecond)
	f.wantConditions(t, before...)
	<-time.After(2 * time.Millisecond)
	synctest.Wait()
	f.wantConditions(t, want...)
	close(release)
	assert.NilError(t, <-done)
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
		assert.Check(t, is.Equal(time.Since(start), deadline))
		assert.Check(t, is.Equal(f.client.Writes(), 2), "writes at first")
		for range 3 {
			assert.NilError(t, f.sync(t.Context()))
		}
		assert.Check(t, is.Equal(f.client.Writes(), 2), "writes later")
	})
}

func TestChangedAccessIsProbedAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clocktesting.NewFakeClock(time.Unix(0, 0)))
	f.finds(noResponse())
	for i, step := range []struct {
		generation int64
		probes     int
	}{{0, 1}, {0, 1}, {1, 2}, {1, 2}, {2, 3}, {1, 4}} {
		f.access.generation.Store(step.generation)
		assert.NilError(t, f.sync(t.Context()))
		f.wantProbes(t, step.probes, fmt.Sprint("in step ", i))
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
		probes int
	}{
		{"poll", 1},
		{"notification of the first test", 1},
		{trigger, 2},
		{"notification of a change", 3},
		{"notification of a change", 4},
		{"no change", 4},
	} {
		if step.cause == trigger {
			f.MakeDue(nil)
		}
		assert.NilError(t, f.sync(t.Context()))
		f.wantProbes(t, step.probes, fmt.Sprint("in step ", i))
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
		assert.NilError(t, err, "%d probes after %d changes", f.requests.Load(), i)
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
	assert.Check(t, is.DeepEqual([]Result[string]{
		{Found: "zones", Availability: Availability{Available: true}}, {Err: refused().err},
	}, f.results))
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
		f.wantConditions(t, unreachable("CloudUnreachable", "no route"))
		assert.Check(t, is.Equal(f.client.Writes(), 1))
	})
}
