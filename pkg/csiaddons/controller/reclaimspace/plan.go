package reclaimspace

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

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
	// unable says where the sidecars of nodes cannot reclaim space; "" if they have done so.
	unable string
}

// node returns the node of a call, or "" for a call of the controller service.
func (p plan) node() string {
	if p.step != v1alpha1.ReclaimSpaceOnNode {
		return ""
	}
	return p.sidecar.Node
}

// plan chooses the next call from the capabilities of the sidecars that would serve it: on a node
// that uses the volume, then in the controller service. A driver may have one of the two only. It
// skips what an earlier call has completed.
func (r *Reconciler) plan(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, v volume,
) (plan, *obstacle, error) {
	offered, err := r.offers(ctx, v.driver)
	if err != nil {
		return plan{}, nil, err
	}
	if !offered.known {
		return plan{}, waiting(ReasonNoSidecar, "The controller is not connected to a sidecar of "+
			"driver %s", v.driver), nil
	}
	var next plan
	switch {
	case done(job, ConditionNode):
	case !offered.online:
		next.unable = "at all"
	default:
		nodes, err := r.nodes(ctx, v)
		if err != nil {
			return plan{}, nil, err
		}
		if able := offered.able(nodes); len(able) > 0 {
			return r.planNode(v.driver, able)
		}
		if len(nodes) > 0 {
			next.unable = "on " + some(nodes)
		} else {
			next.skipped = "No node uses the volume"
		}
	}
	return r.planController(ctx, job, v.driver, offered, next)
}

// planController chooses the call of the controller service. A sidecar on a node cannot pretend to
// be one: the Lease of the driver names its pod.
func (r *Reconciler) planController(ctx context.Context, job *v1alpha1.ReclaimSpaceJob,
	driver string, offered offers, next plan,
) (plan, *obstacle, error) {
	absent := waiting(ReasonNoSidecar, "The controller is not connected to the pod that is the "+
		"leader of driver %s", driver)
	var leaders []types.NamespacedName
	exists := false
	if offered.offline && !done(job, ConditionController) {
		var err error
		leaders, exists, err = r.Router.Leaders(ctx, driver, offered.namespaces)
		if err != nil {
			return plan{}, nil, err
		}
	}
	can, known := offered.leads(leaders)
	switch {
	case can:
		next.step = v1alpha1.ReclaimSpaceInController
		next.sidecar = r.Router.OfPods(driver, leaders, connection.ReclaimOffline)
		if next.sidecar == nil {
			return plan{}, absent, nil
		}
		return next, nil, nil
	case exists && !known: // a leader begins or ends
		return plan{}, absent, nil
	case next.unable == "" || done(job, ConditionController):
		return next, nil, nil
	case offered.offline && !exists: // the first leader begins
		return plan{}, absent, nil
	default:
		return plan{}, final(ReasonUnsupported, "The driver %s cannot reclaim space %s", driver,
			next.unable), nil
	}
}

func (r *Reconciler) planNode(driver string, nodes []string) (plan, *obstacle, error) {
	for _, node := range nodes {
		sidecar := r.Router.OnNode(driver, node, connection.ReclaimOnline)
		if sidecar != nil {
			return plan{step: v1alpha1.ReclaimSpaceOnNode, sidecar: sidecar}, nil, nil
		}
	}
	return plan{}, waiting(ReasonNoSidecar, "The controller is not connected to a sidecar of driver "+
		"%s on %s, which uses the volume", driver, some(nodes)), nil
}

// some returns the first names of a list.
func some(nodes []string) string {
	const shown = 3
	return strings.Join(nodes[:min(len(nodes), shown)], ", ")
}

// done returns whether a condition says that a half of a job is complete.
func done(job *v1alpha1.ReclaimSpaceJob, condition string) bool {
	return meta.FindStatusCondition(job.Status.Conditions, condition) != nil
}
