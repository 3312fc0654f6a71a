package controller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
)

// obstacle is an error that says why a job cannot call the driver.
type obstacle struct {
	reason, message string
	// final means that waiting does not help.
	final bool
}

// Error implements error.
func (o *obstacle) Error() string { return o.message }

func waiting(reason, format string, args ...any) *obstacle {
	return &obstacle{reason: reason, message: fmt.Sprintf(format, args...)}
}

func final(reason, format string, args ...any) *obstacle {
	return &obstacle{reason: reason, message: fmt.Sprintf(format, args...), final: true}
}

// nextCall is the next call of a job. Without a sidecar the job is complete.
type nextCall struct {
	volume  *corev1.PersistentVolume
	step    v1alpha1.ReclaimSpaceStep
	sidecar *connection.Sidecar
}

// node returns the node of a call, or "" for a call of the controller service.
func (n nextCall) node() string {
	if n.step != v1alpha1.ReclaimSpaceOnNode {
		return ""
	}
	return n.sidecar.Node
}

// plan chooses the next call from what the connected sidecars that would serve it declare: on a
// node to which the volume is attached, then in the controller service. A driver may have one of
// the two only. It skips what an earlier call has completed, and sets the condition of the node if
// the job needs none.
//
// A sidecar on a node cannot pretend to be the controller service: the Lease of the driver names
// its pod. A driver without sidecars on nodes is complete after the call of the controller service,
// so an obstacle on nodes counts only without this call.
func (r *Jobs) plan(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, v *corev1.PersistentVolume,
) (nextCall, error) {
	driver := source.Of(v).Driver
	if !r.Sidecars.Any(driver) {
		return nextCall{}, waiting(ReasonNoSidecar, "The controller is not connected to a sidecar of "+
			"driver %s", driver)
	}
	next := nextCall{volume: v}
	var problem *obstacle
	onNode := done(job, ConditionNode)
	if !onNode {
		nodes, err := r.nodes(ctx, v)
		if err != nil {
			return nextCall{}, err
		}
		next.step = v1alpha1.ReclaimSpaceOnNode
		next.sidecar, problem = r.planNode(driver, nodes)
		switch {
		case next.sidecar != nil:
			return next, nil
		case problem != nil && !problem.final && r.Sidecars.Any(driver, connection.ReclaimOnline):
			return nextCall{}, problem
		}
	}
	finished := done(job, ConditionController)
	if !finished &&
		r.Sidecars.Any(driver, connection.ControllerService, connection.ReclaimOffline) {
		leader, hasLease, err := r.Sidecars.Leader(ctx, driver)
		switch {
		case err != nil:
			return nextCall{}, err
		case !hasLease: // a sidecar on a node pretends that there is a controller service
		case leader == nil:
			return nextCall{}, waiting(ReasonNoSidecar, "The controller is not connected to the pod that "+
				"is the leader of driver %s", driver)
		case leader.Has(connection.ReclaimOffline):
			next.step, next.sidecar = v1alpha1.ReclaimSpaceInController, leader
		}
	}
	if problem != nil && !finished && next.sidecar == nil {
		return nextCall{}, problem
	}
	if problem == nil && !onNode {
		r.set(job, ConditionNode, false, ReasonNotInUse, "The volume is attached to no node")
	}
	return next, nil
}

// planNode chooses the sidecar on one of the nodes to which a volume is attached. Without one it
// returns why the job waits, or what the driver cannot do there. If there is no node, it returns
// neither.
func (r *Jobs) planNode(driver string, nodes []string) (*connection.Sidecar, *obstacle) {
	switch {
	case len(nodes) > 0:
	case r.Sidecars.Any(driver, connection.ReclaimOnline),
		r.Sidecars.Any(driver, connection.ReclaimOffline):
		return nil, nil
	default: // other sidecars may connect later
		return nil, waiting(ReasonUnsupported, "No connected sidecar of driver %s can reclaim space",
			driver)
	}
	var silent []string
	for _, node := range nodes {
		sidecar := r.Sidecars.OnNode(driver, node, connection.ReclaimOnline)
		if sidecar != nil {
			return sidecar, nil
		}
		if r.Sidecars.OnNode(driver, node, connection.NodeService) == nil {
			silent = append(silent, node)
		}
	}
	if len(silent) > 0 {
		return nil, waiting(ReasonNoSidecar, "The controller is not connected to a sidecar of "+
			"driver %s on %s, to which the volume is attached", driver, some(silent))
	}
	return nil, final(ReasonUnsupported, "The driver %s cannot reclaim space on %s", driver,
		some(nodes))
}

func some(nodes []string) string {
	const shown = 3
	return strings.Join(nodes[:min(len(nodes), shown)], ", ")
}

func done(job *v1alpha1.ReclaimSpaceJob, condition string) bool {
	return meta.FindStatusCondition(job.Status.Conditions, condition) != nil
}
