package cloudprobe

import (
	"context"
	"fmt"
	"slices"
	"time"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/apiserver/jsonpatch"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// How long a probe may take before a condition reports that it is pending. Without a driver and
// without a condition, the storage ClusterOperator waits for the first result.
const (
	firstPatience = time.Second
	laterPatience = 30 * time.Second
)

// Gate starts a driver when a probe first finds it available. Until then, and whenever OpenStack
// does not offer the service, the condition <Service>ControllerDisabled is True.
type Gate struct {
	// Deployed reports whether the driver is in the cluster already. Such a driver starts even if
	// OpenStack is unreachable, so that it is upgraded and repaired.
	Deployed func(context.Context) (bool, error)
	// Start starts the controllers of the driver. It is called once.
	Start   func()
	started bool
}

func (g *Gate) startIfDeployed(ctx context.Context) error {
	if g == nil || g.started {
		return nil
	}
	found, err := g.Deployed(ctx)
	if err == nil && found {
		g.start()
	}
	return err
}

func (g *Gate) start() {
	if !g.started {
		g.started = true
		g.Start()
	}
}

func (g *Gate) patience(first bool) time.Duration {
	if g != nil && !g.started && first {
		return firstPatience
	}
	return laterPatience
}

// gate starts the driver if it is available. It returns the condition that disables the driver, or
// none: the status of that condition is never False, because CSO evaluates only the type.
func (p *Probe) gate(ctx context.Context, o outcome) ([]*cluster.Condition, error) {
	if !o.failed() && o.Available {
		p.Gate.start()
	}
	_, status, _, err := p.Operator.GetOperatorState()
	if err != nil {
		return nil, err
	}
	name := p.Service + "ControllerDisabled"
	i := slices.IndexFunc(status.Conditions,
		func(c opv1.OperatorCondition) bool { return c.Type == name })
	disabled := func(reason, message string) []*cluster.Condition {
		return []*cluster.Condition{cluster.NewCondition(name, opv1.ConditionTrue, reason, message)}
	}
	switch {
	case !o.failed() && !o.Available:
		return disabled(o.Reason, o.Message), nil
	case o.failed() && !p.Gate.started:
		return disabled(o.reason(), o.err.Error()), nil
	case i < 0:
		return nil, nil
	case o.failed(): // an outage does not change what the last successful probe found
		return disabled(status.Conditions[i].Reason, status.Conditions[i].Message), nil
	}
	// Remove the condition of another field manager, such as an earlier release: Apply does not.
	path := fmt.Sprintf("/status/conditions/%d", i)
	test := jsonpatch.NewTestCondition(path+"/type", name)
	return nil, p.Operator.PatchOperatorStatus(ctx, jsonpatch.New().WithRemove(path, test))
}
