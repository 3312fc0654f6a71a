package cloudprobe

import (
	"cmp"
	"context"
	"errors"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// ErrPending is published while the first probe has no result.
var ErrPending = errors.New("OpenStack has not answered yet. If this persists, check the route " +
	"between cluster and cloud, and Proxy/cluster (on HyperShift the management cluster's)")

type condition = applyopv1.OperatorConditionApplyConfiguration

// publish writes the conditions and, if the reason changed, an event. It starts the driver first if
// the Gate waited for this outcome.
func (p *Probe) publish(ctx context.Context, o outcome) error {
	conditions := []*condition{p.reachable(o)}
	if p.Gate != nil {
		disabled, err := p.gate(ctx, o)
		if err != nil {
			return err
		}
		conditions = append(conditions, disabled...)
	}
	status := applyopv1.OperatorStatus().WithConditions(conditions...)
	if err := p.Operator.ApplyOperatorStatus(ctx, p.FieldManager, status); err != nil {
		return err
	}
	p.recordEvent(o)
	return nil
}

func (p *Probe) reachable(o outcome) *condition {
	c := applyopv1.OperatorCondition().WithType(p.Service + "CloudReachable")
	if o.err != nil {
		return c.WithStatus(opv1.ConditionFalse).WithReason(o.reason()).WithMessage(o.err.Error())
	}
	return c.WithStatus(opv1.ConditionTrue).WithReason("AsExpected").WithMessage("OpenStack answers")
}

func (p *Probe) recordEvent(o outcome) {
	reason := o.reason()
	if reason == p.published {
		return
	}
	p.published = reason
	switch {
	case o.err != nil:
		p.Events.Warningf(p.Service+string(openstack.CloudUnreachable), "%s: %s", reason, o.err)
	case o.Available:
		p.Events.Eventf(p.Service+"Found", "OpenStack answers and offers what the driver needs")
	default:
		p.Events.Eventf(p.Service+"Disabled", "%s: %s", reason, cmp.Or(o.Message, "no message"))
	}
}
