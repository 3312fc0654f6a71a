package operator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// fakeController runs until its context is done, and ends a while later.
type fakeController struct {
	factory.Controller
	name           string
	started, ended atomic.Int32
}

func (c *fakeController) Name() string { return c.name }

func (c *fakeController) Run(ctx context.Context, _ int) {
	c.started.Add(1)
	<-ctx.Done()
	<-time.After(time.Second)
	c.ended.Add(1)
}

// cast is a runner with a fake controller of each kind.
type cast struct {
	*runner
	always, gated, workload *fakeController
	client                  *fakeClient
}

func newCast() *cast {
	c := &cast{always: &fakeController{}, gated: &fakeController{}, workload: &fakeController{}, client: newFakeClient()}
	both := []*driver{
		{Driver: plugin.Driver{Name: "leader"}, cluster: &cluster.Cluster{}, operator: newConditionWriter(c.client), applied: &firstTimes{}},
		{Driver: plugin.Driver{Name: "leader"}, applied: &firstTimes{}},
	}
	c.runner = &runner{
		drivers: both, always: []factory.Controller{c.always}, gated: []factory.Controller{c.gated}, workloads: []factory.Controller{c.workload},
	}
	return c
}

func (c *cast) observe(text string) {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	c.client.spec.ObservedConfig.Raw = []byte(text)
}

func (c *cast) running() []int32 {
	synctest.Wait()
	return []int32{c.always.started.Load(), c.gated.started.Load(), c.workload.started.Load()}
}

const (
	onlyVersion    = `{"targetcsiconfig":{"servingInfo":{"minTLSVersion":"VersionTLS12"}}}`
	observedConfig = `{"targetcsiconfig":{"servingInfo":{"minTLSVersion":"VersionTLS12","cipherSuites":["TLS_AES_128_GCM_SHA256"]}}}`
)

func TestWorkloadsWaitForWhatTheyNeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast()
		fail := errors.New("not yet")
		syncs := []factory.SyncFunc{}
		for _, d := range c.drivers {
			syncs = append(syncs, d.applied.after(func(context.Context, factory.SyncContext) error { return fail }))
		}
		ctx, cancel := context.WithCancel(t.Context())
		c.open(ctx)
		for _, observed := range []string{"", "{", "{}", onlyVersion, observedConfig} {
			c.observe(observed)
			<-time.After(time.Second)
			if diff := cmp.Diff([]int32{0, 1, 0}, c.running()); diff != "" {
				t.Errorf("observed %q, nothing applied: started always, gated, workloads (-want +got):\n%s", observed, diff)
			}
		}
		for i, s := range syncs {
			if err := s(ctx, nil); !errors.Is(err, fail) {
				t.Errorf("got %v, want the sync's own error", err)
			}
			if diff := cmp.Diff([]int32{0, 1, 0}, c.running()); diff != "" {
				t.Errorf("driver %d failed: started (-want +got):\n%s", i, diff)
			}
		}
		fail = nil
		for i, s := range syncs {
			if err := errors.Join(s(ctx, nil), s(ctx, nil)); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]int32{0, 1, int32(i)}, c.running()); diff != "" {
				t.Errorf("%d drivers applied: started (-want +got):\n%s", i+1, diff)
			}
		}
		cancel()
		c.runner.running.Wait()
	})
}

func TestWorkloadsStartInTheEnd(t *testing.T) {
	t.Parallel()
	for name, observed := range map[string]string{"nothing observed": "", "nothing applied": observedConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCast()
				for _, d := range c.drivers {
					d.applied.after(nil)
				}
				c.observe(observed)
				ctx, cancel := context.WithCancel(t.Context())
				c.open(ctx)
				<-time.After(readyBound - time.Millisecond)
				if diff := cmp.Diff([]int32{0, 1, 0}, c.running()); diff != "" {
					t.Errorf("within the bound: started (-want +got):\n%s", diff)
				}
				<-time.After(2 * time.Millisecond)
				if diff := cmp.Diff([]int32{0, 1, 1}, c.running()); diff != "" {
					t.Errorf("after the bound: started (-want +got):\n%s", diff)
				}
				cancel()
				c.runner.running.Wait()
			})
		})
	}
}

func TestRunEndsWhenAllHaveEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast()
		c.observe(observedConfig)
		ctx, cancel := context.WithCancel(t.Context())
		// No gate: open from the start.
		if err := c.guard(ctx, interval, clock.RealClock{}); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			c.run(ctx)
			close(done)
		}()
		if diff := cmp.Diff([]int32{1, 1, 1}, c.running()); diff != "" {
			t.Errorf("started (-want +got):\n%s", diff)
		}
		cancel()
		<-done
		if got := []int32{c.always.ended.Load(), c.gated.ended.Load(), c.workload.ended.Load()}; !cmp.Equal(got, []int32{1, 1, 1}) {
			t.Errorf("run returned when %v had ended, want all", got)
		}
	})
}

// TestStaleConditionsFollowTheFlavour: csi-operator has a static controller for each side in both flavours.
func TestStaleConditionsFollowTheFlavour(t *testing.T) {
	t.Parallel()
	for f, want := range map[flavour.Flavour][]string{
		flavour.Standalone: {"OldDegraded", "OpenStackManilaDriverControlPlaneStaticResourcesControllerDegraded"},
		flavour.HyperShift: {"OldDegraded"},
	} {
		plugins := plugins()
		plugins[0].StaleConditions, plugins[1].StaleConditions = []string{"OldDegraded"}, nil
		drivers := assembled(t, f, plugins...)
		if diff := cmp.Diff(want, drivers[0].staleConditions()); diff != "" {
			t.Errorf("%s: stale conditions (-want +got):\n%s", f, diff)
		}
		if got := drivers[1].staleConditions(); len(got) > 0 {
			t.Errorf("%s: a driver without static objects has the stale conditions %q", f, got)
		}
	}
}
