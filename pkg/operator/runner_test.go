package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/test/clustertest"
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

// runnerFixture is a runner with a fake controller of each phase.
type runnerFixture struct {
	*runner
	always, needed, workload *fakeController
	client                   *clustertest.Operator
}

func newRunnerFixture(t *testing.T) *runnerFixture {
	t.Helper()
	f := &runnerFixture{
		always: &fakeController{}, needed: &fakeController{}, workload: &fakeController{},
		client: newFakeClient(t),
	}
	common := &shared{
		cluster: &cluster.Cluster{Flavour: flavour.Kubernetes}, operator: f.client,
		needed:   make(chan struct{}),
		settings: &settings.Settings{ReleaseLeases: new(true)},
	}
	f.runner = &runner{
		drivers: []*driver{
			{shared: common, initialSyncs: &initialSyncs{}},
			{shared: common, initialSyncs: &initialSyncs{}},
		},
		controllers: map[phase][]factory.Controller{
			always: {f.always}, driverNeeded: {f.needed}, workloads: {f.workload},
		},
	}
	return f
}

// start runs the runner until the test ends.
func (f *runnerFixture) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (f *runnerFixture) observe(t *testing.T, text string) {
	t.Helper()
	setSpec(t, f.client, opv1.OperatorSpec{
		ManagementState: opv1.Managed, ObservedConfig: runtime.RawExtension{Raw: []byte(text)},
	})
}

// expect compares how many controllers of the last two phases have started. The others always run.
func (f *runnerFixture) expect(t *testing.T, when string, needed, workloads int32) {
	t.Helper()
	<-time.After(time.Second)
	synctest.Wait()
	got := []int32{f.always.started.Load(), f.needed.started.Load(), f.workload.started.Load()}
	assert.Check(t, is.DeepEqual([]int32{1, needed, workloads}, got),
		"%s: started in phases always, driverNeeded, workloads", when)
}

const (
	onlyVersion    = `{"targetcsiconfig":{"servingInfo":{"minTLSVersion":"VersionTLS12"}}}`
	observedConfig = `{"targetcsiconfig":{"servingInfo":{"minTLSVersion":"VersionTLS12",` +
		`"cipherSuites":["TLS_AES_128_GCM_SHA256"]}}}`
)

func TestDriverStartsWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newRunnerFixture(t)
		f.observe(t, observedConfig)
		f.drivers[0].components.StartWhenAvailable = true
		stop := f.start(t)
		f.expect(t, "before the probe", 0, 0)
		close(f.drivers[0].needed)
		f.expect(t, "after the probe", 1, 1)
		stop()
		ended := []int32{f.always.ended.Load(), f.needed.ended.Load(), f.workload.ended.Load()}
		assert.Check(t, is.DeepEqual([]int32{1, 1, 1}, ended), "ended when run returns")
	})
}

func TestWorkloadsStartAfterTheirPrerequisites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newRunnerFixture(t)
		fail := errors.New("not yet")
		sync := func(context.Context, factory.SyncContext) error { return fail }
		var syncs []factory.SyncFunc
		for _, d := range f.drivers {
			syncs = append(syncs, d.initialSyncs.track(sync))
		}
		stop := f.start(t)
		for _, observed := range []string{"", "{", "{}", onlyVersion, observedConfig} {
			f.observe(t, observed)
			f.expect(t, "observed "+observed, 1, 0)
		}
		for _, s := range syncs {
			assert.Check(t, is.ErrorIs(s(t.Context(), nil), fail))
			f.expect(t, "after a failed sync", 1, 0)
		}
		fail = nil
		for i, s := range syncs {
			assert.Check(t, errors.Join(s(t.Context(), nil), s(t.Context(), nil)))
			f.expect(t, fmt.Sprintf("after the sync of driver %d", i), 1, int32(i))
		}
		stop()
	})
}

// Nothing writes the prerequisites before.
func TestTimeoutBeginsWhenTheOperatorReconciles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newRunnerFixture(t)
		f.drivers[0].initialSyncs.track(nil)
		setState(t, f.client, opv1.Unmanaged)
		stop := f.start(t)
		<-time.After(2 * prerequisitesTimeout)
		f.expect(t, "Unmanaged", 1, 0)
		f.observe(t, observedConfig)
		<-time.After(prerequisitesTimeout - 1500*time.Millisecond)
		f.expect(t, "Managed, before the timeout", 1, 0)
		f.expect(t, "Managed, after the timeout", 1, 1)
		stop()
	})
}

func TestWorkloadsStartAfterTheTimeout(t *testing.T) {
	t.Parallel()
	for _, observed := range []string{"", observedConfig} {
		synctest.Test(t, func(t *testing.T) {
			f := newRunnerFixture(t)
			for _, d := range f.drivers {
				d.initialSyncs.track(nil)
			}
			f.observe(t, observed)
			stop := f.start(t)
			<-time.After(prerequisitesTimeout - time.Second - time.Millisecond)
			f.expect(t, "before the timeout, observed "+observed, 1, 0)
			f.expect(t, "after the timeout, observed "+observed, 1, 1)
			stop()
		})
	}
}
