package cloudprobe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// quotaInterval is the time between two requests for quotas.
const quotaInterval = 10 * time.Minute

// The reasons of the condition <Service>Quota. From the first percentage on a quota is nearly full
// or full, and it stays so until its use is below the second one. Uses in between change nothing.
const (
	reasonFull     = "Full"
	fullFrom       = 98
	fullUntil      = 95
	reasonNearly   = "NearlyFull"
	nearlyFrom     = 90
	nearlyUntil    = 85
	reasonExpected = "AsExpected"
)

// checkQuotas reads the quotas after a probe that succeeded, at long intervals, and publishes them.
// Nothing depends on them: a failed request changes nothing. If OpenStack refuses the request,
// there is no condition and no metric.
func (p *Probe) checkQuotas(ctx context.Context) error {
	due := p.Quotas != nil && p.Clock.Since(p.quotasAsked) >= quotaInterval
	if client := p.optionalClient(ctx, due); client != nil {
		p.quotasAsked = p.Clock.Now()
		found, err := p.Quotas(client, ctx)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("OpenStack did not show its quotas", "reason", err.Error())
		}
		if err == nil || openstack.ReasonOf(err) != openstack.CloudUnreachable {
			p.setQuotas(found, err == nil)
		}
	}
	if p.quotaConditions == nil {
		return nil
	}
	return cluster.ApplyConditions(ctx, p.Operator, p.FieldManager+"-Quota", p.quotaConditions...)
}

// setQuotas keeps the quotas of the project. Those of types do not concern each cluster, and their
// names may be those of tenants.
func (p *Probe) setQuotas(found []openstack.Quota, shown bool) {
	found = slices.DeleteFunc(found, func(q openstack.Quota) bool {
		return !slices.Contains([]string{
			"gigabytes", "shares", "snapshot_gigabytes", "snapshots", "volumes",
		}, q.Resource)
	})
	p.Metrics.observeQuotas(p.Driver, found)
	p.quotaConditions = []*cluster.Condition{}
	if shown {
		p.quotaConditions = append(p.quotaConditions, p.quotaCondition(found))
	}
}

// quotaCondition contains limits and no use, so that it changes only with a reason. The condition
// that is published tells what was nearly full before, also after a restart.
func (p *Probe) quotaCondition(found []openstack.Quota) *cluster.Condition {
	name, before := p.Service+"Quota", opv1.OperatorCondition{}
	if _, status, _, err := p.Operator.GetOperatorState(); err == nil {
		before = ptr.Deref(v1helpers.FindOperatorCondition(status.Conditions, name), before)
	}
	limits := map[string][]string{}
	for _, q := range found {
		limit, reason := fmt.Sprintf("%s (limit %d)", q.Resource, q.Limit), ""
		if strings.Contains(before.Message, limit) {
			reason = before.Reason
		}
		reason = reasonOf(q, reason)
		limits[reason] = append(limits[reason], limit)
	}
	reason, parts := reasonExpected, []string{}
	for _, r := range []struct{ reason, text string }{
		{reasonNearly, "nearly full: "}, {reasonFull, "full: "},
	} {
		if len(limits[r.reason]) > 0 {
			reason, parts = r.reason, append(parts, r.text+strings.Join(limits[r.reason], ", "))
		}
	}
	if len(parts) == 0 {
		return cluster.NewCondition(name, opv1.ConditionTrue, reason, "No quota of "+p.Service+
			" in the OpenStack project is nearly full")
	}
	return cluster.NewCondition(name, opv1.ConditionFalse, reason, "Quotas of "+p.Service+" in the "+
		"OpenStack project, which others may use, too, are "+strings.Join(parts, "; ")+". kubectl "+
		"openstack-csi volumes -A --clouds clouds.yaml says who fills them. Delete what nobody needs, "+
		"or ask the cloud's administrator to raise the quotas")
}

// reasonOf returns the reason for a quota that had another one before. A limit of 0 allows nothing,
// so it is never full.
func reasonOf(q openstack.Quota, before string) string {
	const percent = 100
	use := q.Used * percent
	switch {
	case q.Limit == 0:
	case use >= fullFrom*q.Limit, before == reasonFull && use >= fullUntil*q.Limit:
		return reasonFull
	case use >= nearlyFrom*q.Limit,
		(before == reasonFull || before == reasonNearly) && use >= nearlyUntil*q.Limit:
		return reasonNearly
	}
	return reasonExpected
}
