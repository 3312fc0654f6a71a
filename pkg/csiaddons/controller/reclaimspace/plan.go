package reclaimspace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// obstacle says why a job cannot call the driver.
type obstacle struct {
	reason, message string
	// final means that waiting does not help.
	final bool
}

func waiting(reason, format string, args ...any) *obstacle {
	return &obstacle{reason: reason, message: fmt.Sprintf(format, args...)}
}

func final(reason, format string, args ...any) *obstacle {
	return &obstacle{reason: reason, message: fmt.Sprintf(format, args...), final: true}
}

// plan is the next call of a job. Without a sidecar the job is complete.
type plan struct {
	step    v1alpha1.ReclaimSpaceStep
	sidecar *connection.Sidecar
	// skipped is the message about the node that the job does not need, or "".
	skipped string
}

// plan chooses the next call from the capabilities of the driver: on a node that uses the volume,
// then in the controller service. A driver may have one of the two only. It skips what an earlier
// call has completed.
func (r *Reconciler) plan(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, v volume,
) (plan, *obstacle, error) {
	declared, problem, err := r.capabilities(ctx, v.driver)
	if err != nil || problem != nil {
		return plan{}, problem, err
	}
	onNode := slices.Contains(declared, connection.ReclaimOnline)
	inController := slices.Contains(declared, connection.ReclaimOffline)
	if !onNode && !inController {
		return plan{}, final(ReasonUnsupported, "The driver %s cannot reclaim space", v.driver), nil
	}
	var next plan
	if onNode && !done(job, ConditionNode) {
		nodes, err := r.nodes(ctx, v)
		switch {
		case err != nil:
			return plan{}, nil, err
		case len(nodes) > 0:
			return r.planNode(v.driver, nodes)
		case !inController:
			return plan{}, waiting(ReasonNotInUse, "No node uses the volume, and the driver %s reclaims "+
				"space only on nodes", v.driver), nil
		}
		next.skipped = "No node uses the volume"
	}
	if !inController || done(job, ConditionController) {
		return next, nil, nil
	}
	next.step = v1alpha1.ReclaimSpaceInController
	next.sidecar, err = r.Router.Leader(ctx, v.driver, connection.ReclaimOffline)
	if err == nil && next.sidecar == nil {
		problem = waiting(ReasonNoSidecar, "The controller is not connected to the pod that is the "+
			"leader of driver %s", v.driver)
	}
	return next, problem, err
}

func (r *Reconciler) planNode(driver string, nodes []string) (plan, *obstacle, error) {
	for _, node := range nodes {
		sidecar := r.Router.OnNode(driver, node, connection.ReclaimOnline)
		if sidecar != nil {
			return plan{step: v1alpha1.ReclaimSpaceOnNode, sidecar: sidecar}, nil, nil
		}
	}
	return plan{}, waiting(ReasonNoSidecar, "The controller is not connected to a sidecar of driver "+
		"%s on %s, which uses the volume", driver, strings.Join(nodes[:min(len(nodes), 3)], ", ")), nil
}

// capabilities returns the capabilities of a driver. They are in the status of its CSIAddonsNodes,
// so that they are known while a sidecar restarts.
func (r *Reconciler) capabilities(ctx context.Context, driver string,
) ([]string, *obstacle, error) {
	var nodes v1alpha1.CSIAddonsNodeList
	err := r.Client.List(ctx, &nodes, client.MatchingFields{r.IndexDriver: driver})
	if err != nil {
		return nil, nil, fmt.Errorf("listing CSIAddonsNodes: %w", err)
	}
	var found []string
	known := false
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if r.Drivers.Allows(driver, node.Namespace) && node.Status.State != "" {
			known = known || len(node.Status.Capabilities) > 0
			found = append(found, node.Status.Capabilities...)
		}
	}
	if !known {
		return nil, waiting(ReasonNoSidecar, "The controller is not connected to a sidecar of driver %s",
			driver), nil
	}
	return found, nil, nil
}

// done returns whether a condition says that a half of a job is complete.
func done(job *v1alpha1.ReclaimSpaceJob, condition string) bool {
	return meta.FindStatusCondition(job.Status.Conditions, condition) != nil
}
