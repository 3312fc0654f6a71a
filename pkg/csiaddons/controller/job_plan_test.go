package controller

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// fakeSidecars are the connected sidecars of the driver "a". The pod leader holds its Lease.
type fakeSidecars struct {
	all    []*connection.Sidecar
	leader string
}

func (f fakeSidecars) OfDriver(_ string, capabilities ...string) []*connection.Sidecar {
	return slices.DeleteFunc(slices.Clone(f.all), func(one *connection.Sidecar) bool {
		return !one.Has(capabilities...)
	})
}

func (f fakeSidecars) OnNode(_, node string, capabilities ...string) *connection.Sidecar {
	for _, one := range f.OfDriver("", capabilities...) {
		if one.Node == node {
			return one
		}
	}
	return nil
}

func (f fakeSidecars) Leader(_ context.Context, _ string, capabilities ...string,
) (*connection.Sidecar, error) {
	for _, one := range f.OfDriver("", append(capabilities, connection.ControllerService)...) {
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
		r := newReconciler(t, attachment())
		r.Sidecars = fakeSidecars{all: one.sidecars, leader: one.leader}
		j := &v1alpha1.ReclaimSpaceJob{}
		for _, condition := range one.done {
			r.set(j, condition, true, ReasonReclaimed, "")
		}
		next, problem, err := r.plan(t.Context(), j, volume{name: "pv", driver: "a"})
		got := complete
		switch {
		case problem != nil:
			got = problem.reason
		case next.sidecar != nil:
			got = next.sidecar.Pod.Name
		}
		if err != nil || got != one.want {
			t.Errorf("%s: the plan is %+v with the obstacle %+v and the error %v, want %q", name, next,
				problem, err, one.want)
		}
	}
}

// Nothing can be reclaimed on a node that does not exist, so the job succeeds. The controller
// service is called first, if it can reclaim space.
func TestJobOfAnUnusedVolumeSucceeds(t *testing.T) {
	t.Parallel()
	node := connected("node", "used", connection.NodeService, connection.ReclaimOnline)
	other := connected("other", "c", connection.ControllerService, connection.ReclaimOffline)
	for name, one := range map[string]struct {
		sidecars []*connection.Sidecar
		// controller is the reason of the condition of the controller service, or "" before its call.
		controller, problem, reason, message string
	}{
		"no controller service": {
			sidecars: []*connection.Sidecar{node}, reason: ReasonNotInUse,
			message: "No node uses the volume",
		},
		"before the call of the controller service": {
			sidecars: []*connection.Sidecar{node, other}, problem: ReasonNoSidecar,
		},
		"the controller service cannot reclaim": {
			sidecars: []*connection.Sidecar{node}, controller: ReasonUnimplemented,
			reason: ReasonNotInUse, message: "No node uses the volume",
		},
		"the controller service has reclaimed": {
			sidecars: []*connection.Sidecar{node}, controller: ReasonReclaimed,
			reason: ReasonReclaimed, message: "The driver has reclaimed the unused space",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job, recorder := jobFor("job", "data"), events.NewFakeRecorder(1)
			unused := volumeFor("1")
			unused.Name = "unused"
			claim := claimOfTenant("1", corev1.ClaimBound)
			claim.Spec.VolumeName = unused.Name
			r := newReconciler(t, job, claim, unused)
			r.Events, r.Sidecars = recorder, fakeSidecars{all: one.sidecars}
			if one.controller != "" {
				r.set(job, ConditionNode, false, ReasonNotInUse, "No node uses the volume")
				r.set(job, ConditionController, one.controller == ReasonReclaimed, one.controller, "")
				if err := r.Client.Status().Update(t.Context(), job); err != nil {
					t.Fatal(err)
				}
			}
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)}
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if err := r.Client.Get(t.Context(), request.NamespacedName, job); err != nil {
				t.Fatal(err)
			}
			got := job.Status
			if one.problem != "" {
				if got.Reason != one.problem || got.Result != "" {
					t.Errorf("the status is %+v", got)
				}
				return
			}
			const start = "Reclaim Space operation successfully completed. "
			if got.Result != v1alpha1.OperationSucceeded || got.Reason != one.reason ||
				got.Message != start+one.message {
				t.Errorf("the status is %+v", got)
			}
			if event, want := <-recorder.Events, "Normal Succeeded "+one.message; event != want {
				t.Errorf("the event is %q, want %q", event, want)
			}
		})
	}
}
