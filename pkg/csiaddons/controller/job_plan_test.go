package controller

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// fakeSidecars are the connected sidecars of the driver "a". The pod leader holds its Lease.
type fakeSidecars struct {
	all    []*connection.Sidecar
	leader string
}

func (f fakeSidecars) Any(_ string, capabilities ...string) bool {
	return len(f.having(capabilities)) > 0
}

func (f fakeSidecars) having(capabilities []string) []*connection.Sidecar {
	return slices.DeleteFunc(slices.Clone(f.all), func(one *connection.Sidecar) bool {
		return !one.Has(capabilities...)
	})
}

func (f fakeSidecars) OnNode(_, node string, capabilities ...string) *connection.Sidecar {
	for _, one := range f.having(capabilities) {
		if one.Node == node {
			return one
		}
	}
	return nil
}

func (f fakeSidecars) Leader(_ context.Context, _ string, capabilities ...string,
) (*connection.Sidecar, error) {
	for _, one := range f.having(append(capabilities, connection.ControllerService)) {
		if one.Pod.Name == f.leader {
			return one, nil
		}
	}
	return nil, nil
}

// connected returns a connected sidecar of the driver "a".
func connected(pod, node string, capabilities ...string) *connection.Sidecar {
	return &connection.Sidecar{
		Target: connection.Target{
			Driver: "a", Node: node, Pod: types.NamespacedName{Namespace: "drivers", Name: pod},
		},
		Capabilities: capabilities,
	}
}

// What a sidecar declares counts only for the calls that it would serve, so an old sidecar, or one
// of an attacker, does not stop the jobs of others.
func TestCapabilitiesOfOneSidecarDoNotCountForOthers(t *testing.T) {
	t.Parallel()
	node, both := connection.NodeService, connection.ControllerService
	online, offline := connection.ReclaimOnline, connection.ReclaimOffline
	liar := connected("liar", "other", node, both, online, offline)
	used, old := connected("node", "used", node, online), connected("node", "used", node)
	leader, lame := connected("leader", "c", both, offline), connected("leader", "c", both)
	const complete = ""
	for name, one := range map[string]struct {
		sidecars []*connection.Sidecar
		leader   string
		done     []string // conditions of the job
		want     string   // pod of the sidecar, or the reason of an obstacle
	}{
		"the node of the volume can reclaim": {[]*connection.Sidecar{liar, used}, "", nil, "node"},
		"the node of the volume cannot reclaim": {
			[]*connection.Sidecar{liar, old, lame}, "leader", nil, ReasonUnsupported,
		},
		"the node of the volume has no sidecar": {
			[]*connection.Sidecar{liar}, "", nil, ReasonNoSidecar,
		},
		"only the controller service can reclaim": {
			[]*connection.Sidecar{leader}, "leader", nil, "leader",
		},
		"only the controller service has reclaimed": {
			[]*connection.Sidecar{leader}, "leader", []string{ConditionController}, complete,
		},
		"no controller service": {
			[]*connection.Sidecar{used}, "", []string{ConditionNode}, complete,
		},
		"the leader cannot reclaim": {
			[]*connection.Sidecar{liar, used, lame}, "leader", []string{ConditionNode}, complete,
		},
		"the leader can reclaim": {
			[]*connection.Sidecar{used, leader}, "leader", []string{ConditionNode}, "leader",
		},
		"the leader is not connected": {
			[]*connection.Sidecar{liar, used}, "leader", []string{ConditionNode}, ReasonNoSidecar,
		},
		"no sidecar is connected": {nil, "", nil, ReasonNoSidecar},
	} {
		r, _ := newReconciler(t, attachment())
		r.Sidecars = fakeSidecars{all: one.sidecars, leader: one.leader}
		j := &v1alpha1.ReclaimSpaceJob{}
		for _, condition := range one.done {
			r.set(j, condition, true, ReasonReclaimed, "")
		}
		next, err := r.plan(t.Context(), j, volumeFor("1"))
		got := complete
		if problem, ok := errors.AsType[*obstacle](err); ok {
			got = problem.reason
		} else if next.sidecar != nil {
			got = next.sidecar.Pod.Name
		}
		assert.Check(t, got == one.want,
			"%s: the plan is %+v with the error %v, want %q", name, next, err, one.want)
	}
}

// Nothing can be reclaimed on a node that does not exist, so the job succeeds. The controller
// service is called first, if it can reclaim space. If no sidecar can, one may connect later.
func TestJobOfAnUnusedVolumeSucceeds(t *testing.T) {
	t.Parallel()
	const success = v1alpha1.ReclaimSpaceSucceeded + " The volume is attached to no node"
	node := connected("node", "used", connection.NodeService, connection.ReclaimOnline)
	plain := connected("plain", "used", connection.NodeService)
	other := connected("other", "c", connection.ControllerService, connection.ReclaimOffline)
	for _, one := range []struct {
		done     bool // the call of the controller service
		sidecars []*connection.Sidecar
		reason   string
	}{
		{false, []*connection.Sidecar{node}, ReasonNotInUse},
		{false, []*connection.Sidecar{node, other}, ReasonNoSidecar},
		{true, []*connection.Sidecar{node, other}, ReasonNotInUse},
		{false, []*connection.Sidecar{plain}, ReasonUnsupported},
	} {
		job := jobFor("data")
		r, w := newReconciler(t, job, claimOfTenant("1", corev1.ClaimBound), volumeFor("1"))
		r.Sidecars = fakeSidecars{all: one.sidecars}
		if one.done {
			w.read(job)
			r.set(job, ConditionController, false, ReasonUnimplemented, "")
			w.must(w.Status().Update(t.Context(), job))
		}
		w.reconcile(r, job)
		succeeded := job.Status.Result == v1alpha1.OperationSucceeded && job.Status.Message == success
		assert.Check(t, job.Status.Reason == one.reason && succeeded == (one.reason == ReasonNotInUse),
			"the status is %+v, want the reason %s", job.Status, one.reason)
	}
}
