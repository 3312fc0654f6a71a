// Package cloudprobe polls OpenStack and publishes what it finds: in a condition, in events, in
// metrics and to subscribers. Drivers create a Probe from a function that sends the requests;
// pkg/operator runs it, and adds a Gate if the driver starts only when OpenStack offers its
// service.
package cloudprobe

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// deadline bounds one probe. Busy clouds have needed more than 30 s for a login alone.
const deadline = 2 * time.Minute

// Availability is what a successful probe found.
type Availability struct {
	// Available is true if OpenStack offers what the driver needs.
	Available bool
	// Reason and Message explain why it does not. Both are required if Available is false.
	Reason, Message string
}

// Result is the outcome of a probe. T is what the driver reads from OpenStack.
type Result[T any] struct {
	Found T
	Availability
	// Err is set if the probe failed. Then Found and Availability have no meaning.
	Err error
}

// Request sends the requests of one probe. It only reads, and returns soon after its context is
// done. Its error has the same text for the same failure; openstack.ReasonOf finds its reason.
type Request[T any] func(context.Context) (T, Availability, error)

// Access reports changes of the access to OpenStack.
type Access interface {
	// Generation returns a number that changes with the access, 0 until the access is known.
	Generation() int
	Informer() factory.Informer
}

// Options configure a Probe. Fields are required unless their comment says otherwise.
type Options struct {
	// Service starts the names of conditions and events, and is a label of the metrics: "Manila"
	// makes ManilaCloudReachable.
	Service string
	// FieldManager owns the conditions. It must never change, because library-go keeps the
	// transition time of a condition for each field manager.
	FieldManager string
	Operator     v1helpers.OperatorClient
	Events       events.Recorder
	Clock        clock.Clock
	// Interval is the time between polls. Each poll sends a probe.
	Interval time.Duration
	// Access is the access to OpenStack. A change causes a probe immediately.
	Access Access
	// Driver is the name of the CSI driver, a label of metrics. Guest are clients for the cluster with
	// the claims.
	Driver string
	Guest  *cluster.Clients
	// Quotas and InError are optional: they return the quotas of the project, and its volumes with one
	// of the statuses of Errors. Nothing depends on their requests, for which Client returns a client.
	Client  func(context.Context) (*openstack.Client, error)
	Quotas  func(*openstack.Client, context.Context) ([]openstack.Quota, error)
	Errors  []string
	InError func(c *openstack.Client, ctx context.Context, status string) ([]openstack.Volume, error)
	// Triggers are optional. Their events cause a probe immediately, after a call of OnTrigger, which
	// is optional, too.
	Triggers  []factory.Informer
	OnTrigger func()
	// Reads are the informers of further caches that the request and the subscribers read. The first
	// probe waits for the caches.
	Reads []factory.Informer
}

// Probe is the controller that polls OpenStack.
type Probe struct {
	factory.Controller
	Metrics Metrics
	// Gate is optional. It must be set before Run.
	Gate *Gate

	Options
	request func(context.Context) outcome
	// triggered is true if there was an event of Triggers since the last probe.
	triggered atomic.Bool

	// The fields below are accessed only by sync.
	probedAt   time.Time
	generation int
	last       outcome
	// quotasAsked is the time of the last request for quotas. quotaConditions is nil before an answer,
	// and empty after one without quotas.
	quotasAsked     time.Time
	quotaConditions []*cluster.Condition
	// errorRequests is the number of requests for volumes in error, the last one at errorsAsked.
	errorsAsked   time.Time
	errorRequests int
	// inError contains the IDs of the volumes of the cluster that are in error, by status.
	inError map[string]sets.Set[string]
	// published is the reason in the last event.
	published string
}

// outcome is the part of a Result that conditions, events and metrics show.
type outcome struct {
	Availability
	err error
}

func (o outcome) failed() bool { return o.err != nil }

// reason returns the reason of the conditions and the label of the metrics.
func (o outcome) reason() string {
	switch {
	case o.err != nil:
		return string(openstack.ReasonOf(o.err))
	case o.Available:
		return "Open"
	}
	return o.Reason
}

// New returns a Probe that sends request and passes each result to the subscribers, in their order,
// before it publishes the result.
func New[T any](o Options, request Request[T], subscribers ...func(Result[T])) *Probe {
	p := &Probe{Options: o, Metrics: newMetrics(), inError: map[string]sets.Set[string]{}}
	p.request = func(ctx context.Context) outcome {
		found, availability, err := request(ctx)
		for _, notify := range subscribers {
			notify(Result[T]{found, availability, err})
		}
		return outcome{availability, err}
	}
	p.Controller = factory.New().
		// Events of the ClusterCSIDriver do not trigger this controller, because it writes conditions
		// there.
		WithBareInformers(o.Operator.Informer()).
		WithBareInformers(o.Reads...).
		WithInformers(o.Access.Informer()).
		WithInformersQueueKeyFunc(p.MakeDue, o.Triggers...).
		WithSync(cluster.AwaitManaged(o.Operator, p.sync)).
		WithPostStartHooks(cluster.Poll(o.Interval)).
		ToController(o.Service+"CloudProbe", o.Events)
	return p
}

// MakeDue makes the next sync send a probe, and returns the key of the queue.
func (p *Probe) MakeDue(runtime.Object) string {
	p.triggered.Store(true)
	return factory.DefaultQueueKey
}

// sync returns no error if the probe fails: the next poll repeats it.
func (p *Probe) sync(ctx context.Context, _ factory.SyncContext) error {
	if err := p.Gate.startIfDeployed(ctx); err != nil {
		return err
	}
	triggered := p.triggered.Swap(false)
	if triggered && p.OnTrigger != nil {
		p.OnTrigger()
	}
	if triggered || p.due() {
		before := p.Access.Generation()
		p.last = p.probe(ctx)
		p.generation = cmp.Or(before, p.Access.Generation()) // the first probe waits for the access
		p.Metrics.observe(p.Service, p.last)
	}
	if err := p.publish(ctx, p.last); err != nil {
		return err
	}
	p.checkVolumes(ctx)
	return p.checkQuotas(ctx)
}

// optionalClient returns the client for a request that nothing depends on, nil if none is due:
// after a probe that failed the token may be old.
func (p *Probe) optionalClient(ctx context.Context, due bool) *openstack.Client {
	if !due || p.last.failed() || !p.last.Available {
		return nil
	}
	client, _ := p.Client(ctx) // an error is that of the probe
	return client
}

// due returns false for a retry after an error of the API server, which repeats only publish.
func (p *Probe) due() bool {
	return p.probedAt.IsZero() || p.Access.Generation() != p.generation ||
		p.Clock.Since(p.probedAt) >= p.Interval/2
}

// probe waits for the result. If there is a Gate, it publishes after a while that there is none
// yet, except after a failure: the conditions of a cloud that hangs would change twice in each
// probe.
func (p *Probe) probe(ctx context.Context) outcome {
	patience := p.Gate.patience(p.probedAt.IsZero())
	p.probedAt = p.Clock.Now()
	bounded, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if p.Gate == nil || p.last.err != nil {
		return p.request(bounded)
	}
	results := make(chan outcome, 1)
	go func() { results <- p.request(bounded) }()
	select {
	case o := <-results:
		return o
	case <-p.Clock.After(patience):
		if err := p.publish(ctx, outcome{err: ErrPending}); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to report pending OpenStack probe")
		}
	}
	return <-results
}
