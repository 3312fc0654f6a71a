package cloudprobe

import (
	"context"
	"fmt"
	"slices"
	"time"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/apiserver/jsonpatch"
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

func (p *Probe) disabledType() string { return p.Service + "ControllerDisabled" }

// gate starts the driver if it is available. It returns the condition that disables the driver, or
// none: the status of that condition is never False, because CSO evaluates only the type.
func (p *Probe) gate(ctx context.Context, o outcome) ([]*condition, error) {
	if !o.failed() && o.Available {
		p.Gate.start()
	}
	_, status, _, err := p.Operator.GetOperatorState()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(status.Conditions,
		func(c opv1.OperatorCondition) bool { return c.Type == p.disabledType() })
	c := applyopv1.OperatorCondition().WithType(p.disabledType()).WithStatus(opv1.ConditionTrue)
	switch {
	case !o.failed() && !o.Available:
		return []*condition{c.WithReason(o.Reason).WithMessage(o.Message)}, nil
	case o.failed() && !p.Gate.started:
		return []*condition{c.WithReason(o.reason()).WithMessage(o.err.Error())}, nil
	case i < 0:
		return nil, nil
	case o.failed(): // an outage does not change what the last successful probe found
		before := status.Conditions[i]
		return []*condition{c.WithReason(before.Reason).WithMessage(before.Message)}, nil
	}
	// Remove the condition of another field manager, such as an earlier release: Apply does not.
	path := fmt.Sprintf("/status/conditions/%d", i)
	test := jsonpatch.NewTestCondition(path+"/type", p.disabledType())
	return nil, p.Operator.PatchOperatorStatus(ctx, jsonpatch.New().WithRemove(path, test))
}
