package cloudprobe

import (
	"cmp"
	"context"
	"errors"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// ErrPending is published while the first probe has no result.
var ErrPending = errors.New("OpenStack has not answered yet. If this persists, check the route " +
	"from the operator's pod to the cloud, and its proxy variables HTTPS_PROXY and NO_PROXY")

// publish writes the conditions and, if the reason changed, an event. It starts the driver first if
// the Gate waited for this outcome.
func (p *Probe) publish(ctx context.Context, o outcome) error {
	conditions := []*cluster.Condition{p.reachable(o)}
	if p.Gate != nil {
		disabled, err := p.gate(ctx, o)
		if err != nil {
			return err
		}
		conditions = append(conditions, disabled...)
	}
	err := cluster.ApplyConditions(ctx, p.Operator, p.FieldManager, conditions...)
	if err == nil {
		p.recordEvent(o)
	}
	return err
}

func (p *Probe) reachable(o outcome) *cluster.Condition {
	name := p.Service + "CloudReachable"
	if o.err != nil {
		return cluster.NewCondition(name, opv1.ConditionFalse, o.reason(), o.err.Error())
	}
	return cluster.NewCondition(name, opv1.ConditionTrue, "AsExpected", "OpenStack answers")
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
