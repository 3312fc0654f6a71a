package operator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/loglevel"
	"github.com/openshift/library-go/pkg/operator/staleconditions"
)

// readyBound is how long workloads wait for their rights and their configuration. Without these their first pods would be
// rejected and come back only after minutes of back-off; but a workload that comes late and imperfect is better than none.
const readyBound = 30 * time.Second

// runner has all controllers of an operator, and starts them in order.
type runner struct {
	// drivers have their leader first.
	drivers []*driver
	// always run from the start, gated from when the gate opens, workloads as soon after it as they can.
	always, gated, workloads []factory.Controller
	running                  sync.WaitGroup
}

// collect makes the controllers.
func (r *runner) collect() error {
	trusted, err := r.drivers[0].trustedCAController()
	if err != nil {
		return err
	}
	r.always = append(r.drivers[0].always(), trusted...)
	r.gated = []factory.Controller{r.drivers[0].hashKeyController()}
	for _, d := range r.drivers {
		if stale := d.staleConditions(); len(stale) > 0 {
			r.always = append(r.always, d.removeStaleConditions(stale))
		}
		gated, workloads, err := d.gated()
		if err != nil {
			return err
		}
		r.gated = append(r.gated, gated...)
		r.workloads = append(r.workloads, workloads...)
	}
	return nil
}

// guard puts the leader's gate before the gated controllers.
func (r *runner) guard(ctx context.Context, interval time.Duration, c clock.Clock) error {
	leader := r.drivers[0]
	if leader.components.Credentials != nil {
		if err := leader.components.Credentials.Metrics.RegisterWith(legacyregistry.Register); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	if leader.components.Gate == nil {
		r.open(ctx)
		return nil
	}
	metrics := newCloudMetrics()
	if err := metrics.registerWith(legacyregistry.Register); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	keeper := &gatekeeper{
		gate:     leader.components.Gate,
		client:   leader.operator,
		events:   leader.events,
		metrics:  metrics,
		clock:    c,
		interval: interval,
		deployed: leader.deployed,
		start:    func() { r.open(ctx) },
		trusted:  leader.trusted,
	}
	r.always = append(r.always, keeper.controller())
	return nil
}

// run starts the controllers and the informers they asked for, and returns when all have ended.
func (r *runner) run(ctx context.Context) {
	r.start(ctx, r.always)
	r.drivers[0].cluster.Start(ctx)
	<-ctx.Done()
	r.running.Wait()
}

func (r *runner) start(ctx context.Context, controllers []factory.Controller) {
	for _, c := range controllers {
		r.running.Go(func() { c.Run(ctx, 1) })
	}
}

// open starts what the gate held back.
func (r *runner) open(ctx context.Context) {
	klog.FromContext(ctx).Info("Starting the driver", "driver", r.drivers[0].Name)
	r.start(ctx, r.gated)
	r.running.Go(func() {
		r.waitUntilReady(ctx)
		r.start(ctx, r.workloads)
	})
}

// waitUntilReady waits for what the workloads need, within the bound.
func (r *runner) waitUntilReady(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	r.drivers[0].waitFor(ctx, "observed configuration of the cluster", r.drivers[0].hasObservedConfig)
	for _, d := range r.drivers {
		d.applied.wait(ctx)
		d.waitFor(ctx, "configuration", d.components.Ready)
	}
}

// always returns the leader's controllers that run whatever the gate says.
func (d *driver) always() []factory.Controller {
	return []factory.Controller{
		loglevel.NewClusterOperatorLoggingController(discreet{d.operator}, d.events),
		d.managementState(),
		d.configObserver(),
	}
}

// staleConditions returns what earlier releases left behind: the types that the driver names, and the condition of a static
// controller that does not exist in this flavour. csi-operator has two of these everywhere.
func (d *driver) staleConditions() []string {
	stale := slices.Clone(d.StaleConditions)
	groups := d.staticGroups()
	for i, group := range groups {
		if other := groups[1-i]; len(group.assets) == 0 && len(other.assets) > 0 {
			stale = append(stale, d.conditionName(group.name)+opv1.OperatorStatusTypeDegraded)
		}
	}
	return stale
}

func (d *driver) removeStaleConditions(types []string) factory.Controller {
	return staleconditions.NewRemoveStaleConditionsController(d.conditionName("StaleConditions"), types, d.operator, d.events)
}

// waitFor waits until ready says yes; nil is yes.
func (d *driver) waitFor(ctx context.Context, what string, ready func() bool) {
	if ready == nil {
		return
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) { return ready(), nil })
	if err != nil {
		klog.FromContext(ctx).Info("Starting the workloads although something is missing", "driver", d.Name, "missing", what)
	}
}

// hasObservedConfig tells whether the workloads have all that they need of the ClusterCSIDriver.
func (d *driver) hasObservedConfig() bool {
	_, _, _, err := d.cluster.Workloads(d.operator, string(d.Name)).GetOperatorState()
	return err == nil
}
