package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/apiserver/jsonpatch"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const (
	// answerDeadline bounds one look at the cloud. Busy clouds have needed more than 30 s for a login alone.
	answerDeadline = 2 * time.Minute
	// firstPatience is how long the very first answer may take before a condition says that it is awaited: without a driver or any
	// condition the storage ClusterOperator waits.
	firstPatience = time.Second
	// patience is the same for later answers.
	patience = 30 * time.Second
)

// The reasons which the core itself gives.
const (
	reasonOpen    = "Open"
	reasonUnknown = "CloudUnreachable"
)

// answer is what one look at the cloud brought.
type answer struct {
	verdict plugin.Verdict
	err     error
}

func (a answer) reason() string {
	var unknown *plugin.UnknownError
	switch {
	case errors.As(a.err, &unknown):
		return unknown.Reason
	case a.err != nil:
		return reasonUnknown
	case a.verdict.Open:
		return reasonOpen
	}
	return a.verdict.Reason
}

var errAwaited = errors.New(plugin.NotAnsweredYet)

// gatekeeper asks a gate and tells the cluster what it heard. Its fields below the line belong to its sync.
type gatekeeper struct {
	gate     plugin.Gate
	client   v1helpers.OperatorClient
	events   events.Recorder
	metrics  cloudMetrics
	clock    clock.Clock
	interval time.Duration
	// deployed tells whether the driver is in the cluster already.
	deployed func(context.Context) (bool, error)
	// start starts the driver's controllers. It is called once.
	start func()
	// trusted are the CAs that the operator trusts; nil is none. New ones make the gatekeeper ask at once.
	trusted *trustedCA

	// ---
	started bool
	asked   time.Time
	heard   answer
	told    string
}

func (g *gatekeeper) controller() factory.Controller {
	return factory.New().
		// No events of the ClusterCSIDriver: a condition that this controller writes must not make it ask the cloud again.
		WithBareInformers(g.client.Informer()).
		WithInformers(g.trusted.informers()...).
		WithSync(g.sync).
		ResyncEvery(g.interval).
		ToController(g.gate.Name()+"Controller", g.events)
}

func (g *gatekeeper) disabledType() string  { return g.gate.Name() + "ControllerDisabled" }
func (g *gatekeeper) reachableType() string { return g.gate.Name() + "CloudReachable" }

func (g *gatekeeper) sync(ctx context.Context, _ factory.SyncContext) error {
	if managed, err := cluster.Managed(g.client); err != nil || !managed {
		return err
	}
	if err := g.adopt(ctx); err != nil {
		return err
	}
	// After an error of the API server only the telling is repeated, not the asking.
	trustChanged := g.trusted.changed()
	if g.asked.IsZero() || trustChanged || g.clock.Since(g.asked) >= g.interval/2 {
		g.heard = g.ask(ctx)
		g.metrics.observe(g.gate.Name(), g.heard)
	}
	return g.tell(ctx, g.heard)
}

// adopt starts the driver that an earlier run of the operator has deployed, whatever the cloud says: it goes on being upgraded
// and repaired.
func (g *gatekeeper) adopt(ctx context.Context) error {
	if g.started {
		return nil
	}
	found, err := g.deployed(ctx)
	if err == nil && found {
		g.startOnce()
	}
	return err
}

func (g *gatekeeper) startOnce() {
	if !g.started {
		g.started = true
		g.start()
	}
}

// ask looks at the cloud, and says meanwhile that it waits if that takes long. After an error it says nothing new: the
// conditions of a cloud that hangs would change twice a look.
func (g *gatekeeper) ask(ctx context.Context) answer {
	wait := patience
	if g.asked.IsZero() && !g.started {
		wait = firstPatience
	}
	g.asked = g.clock.Now()
	bounded, cancel := context.WithTimeout(ctx, answerDeadline)
	defer cancel()
	answers := make(chan answer, 1)
	go func() {
		verdict, err := g.gate.Check(bounded)
		answers <- answer{verdict, err}
	}()
	select {
	case a := <-answers:
		return a
	case <-g.clock.After(wait):
		if g.heard.err != nil {
			break
		}
		if err := g.tell(ctx, answer{err: errAwaited}); err != nil {
			klog.FromContext(ctx).Error(err, "Telling that OpenStack has not answered yet failed")
		}
	}
	return <-answers
}

// tell writes conditions and, when they change, an event. An open gate starts the driver first.
func (g *gatekeeper) tell(ctx context.Context, a answer) error {
	if a.err == nil && a.verdict.Open {
		g.startOnce()
	}
	conditions, err := g.conditions(a)
	if err != nil {
		return err
	}
	if len(conditions) == 1 { // no Disabled among them
		if err := g.removeDisabled(ctx); err != nil {
			return err
		}
	}
	if err := g.client.ApplyOperatorStatus(ctx, g.gate.Name()+"-Gate", applyopv1.OperatorStatus().WithConditions(conditions...)); err != nil {
		return err
	}
	g.announce(a)
	return nil
}

// removeDisabled removes a Disabled that another writer left, earlier releases among them: what is not this one's own, an Apply
// does not remove.
func (g *gatekeeper) removeDisabled(ctx context.Context) error {
	_, status, _, err := g.client.GetOperatorState()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(status.Conditions, func(c opv1.OperatorCondition) bool { return c.Type == g.disabledType() })
	if i < 0 {
		return nil
	}
	path := fmt.Sprintf("/status/conditions/%d", i)
	return g.client.PatchOperatorStatus(ctx, jsonpatch.New().WithRemove(path, jsonpatch.NewTestCondition(path+"/type", g.disabledType())))
}

// conditions returns what the answer makes of the two conditions, with Disabled left out where it is not to be. Disabled is
// never False: CSO looks for the type alone.
func (g *gatekeeper) conditions(a answer) ([]*applyopv1.OperatorConditionApplyConfiguration, error) {
	reachable := applyopv1.OperatorCondition().WithType(g.reachableType()).
		WithStatus(opv1.ConditionTrue).WithReason("AsExpected").WithMessage("OpenStack answers")
	disabled := applyopv1.OperatorCondition().WithType(g.disabledType()).WithStatus(opv1.ConditionTrue)
	switch {
	case a.err == nil && a.verdict.Open:
		return []*applyopv1.OperatorConditionApplyConfiguration{reachable}, nil
	case a.err == nil:
		disabled.WithReason(a.verdict.Reason).WithMessage(a.verdict.Message)
		return []*applyopv1.OperatorConditionApplyConfiguration{reachable, disabled}, nil
	}
	reachable.WithStatus(opv1.ConditionFalse).WithReason(a.reason()).WithMessage(a.err.Error())
	if !g.started {
		disabled.WithReason(a.reason()).WithMessage(a.err.Error())
		return []*applyopv1.OperatorConditionApplyConfiguration{reachable, disabled}, nil
	}
	// The driver runs; a cloud that does not answer says nothing new about it.
	_, status, _, err := g.client.GetOperatorState()
	if err != nil {
		return nil, err
	}
	before := v1helpers.FindOperatorCondition(status.Conditions, g.disabledType())
	if before == nil {
		return []*applyopv1.OperatorConditionApplyConfiguration{reachable}, nil
	}
	disabled.WithReason(before.Reason).WithMessage(before.Message)
	return []*applyopv1.OperatorConditionApplyConfiguration{reachable, disabled}, nil
}

// announce makes an event of an answer that differs from the one before.
func (g *gatekeeper) announce(a answer) {
	news := a.reason()
	if news == g.told {
		return
	}
	g.told = news
	switch {
	case a.err != nil:
		g.events.Warningf(g.gate.Name()+reasonUnknown, "%s: %s", news, a.err)
	case a.verdict.Open:
		g.events.Eventf(g.gate.Name()+"Found", "OpenStack answers and offers what the driver needs")
	default:
		g.events.Eventf(g.gate.Name()+"Disabled", "%s: %s", news, cmp.Or(a.verdict.Message, "no message"))
	}
}
