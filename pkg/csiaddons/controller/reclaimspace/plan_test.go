package reclaimspace

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/kinds"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// sidecarOf returns the CSIAddonsNode of a pod of the driver "a", which was connected before.
func sidecarOf(pod, node string, state v1alpha1.CSIAddonsNodeState, capabilities ...string,
) client.Object {
	endpoint := wire.Endpoint{Pod: pod, Namespace: "drivers", Port: wire.DefaultPort}
	return &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: pod},
		Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
			Name: "a", NodeID: node, EndPoint: endpoint.String(),
		}},
		Status: v1alpha1.CSIAddonsNodeStatus{State: state, Capabilities: capabilities},
	}
}

// leaseOf returns the Lease of the driver "a".
func leaseOf(pod string) client.Object {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: wire.LeaseName("a")},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(pod)},
	}
}

// planning returns a reconciler that is connected to no sidecar. The volume "pv" is attached to the
// node "used".
func planning(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	known, err := kinds.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	const index = "driver"
	kube := fake.NewClientBuilder().WithScheme(known).
		WithStatusSubresource(&v1alpha1.ReclaimSpaceJob{}).
		WithObjects(append(objects, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec: storagev1.VolumeAttachmentSpec{
				NodeName: "used",
				Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv")},
			},
			Status: storagev1.VolumeAttachmentStatus{Attached: true},
		})...).
		WithIndex(&storagev1.VolumeAttachment{}, indexVolume, volumeOf).
		WithIndex(&v1alpha1.CSIAddonsNode{}, index, func(o client.Object) []string {
			return []string{o.(*v1alpha1.CSIAddonsNode).Spec.Driver.Name}
		}).Build()
	return &Reconciler{
		Client: kube, Live: kube, IndexDriver: index, Clock: testingclock.NewFakePassiveClock(time.Now()),
		Drivers: settings.Drivers{"a": {Namespaces: []string{"drivers"}}},
		Router:  &connection.Router{Pool: connection.NewPool(nil, nil, nil), Leases: kube},
	}
}

// What a sidecar declares counts only for the calls that it would serve, so an old sidecar, or one
// of an attacker, does not stop the jobs of others.
func TestCapabilitiesOfOneSidecarDoNotCountForOthers(t *testing.T) {
	t.Parallel()
	const connected, failed = v1alpha1.CSIAddonsNodeConnected, v1alpha1.CSIAddonsNodeFailed
	node, both := connection.NodeService, connection.ControllerService
	online, offline := connection.ReclaimOnline, connection.ReclaimOffline
	liar := sidecarOf("liar", "other", connected, node, both, online, offline)
	used := sidecarOf("node", "used", connected, node, online)
	old := sidecarOf("node", "used", connected, node)
	other := sidecarOf("old", "other", connected, node)
	for name, one := range map[string]struct {
		objects []client.Object
		done    []string // conditions of the job
		want    string   // reason of the obstacle; "" means that the job is complete
	}{
		"no controller service": {[]client.Object{liar, used}, []string{ConditionNode}, ""},
		"the leader cannot reclaim": {
			[]client.Object{liar, used, sidecarOf("leader", "c", connected, both), leaseOf("leader")},
			[]string{ConditionNode},
			"",
		},
		"the leader can reclaim": {
			[]client.Object{used, sidecarOf("leader", "c", connected, both, offline), leaseOf("leader")},
			[]string{ConditionNode},
			ReasonNoSidecar,
		},
		"the leader begins": {
			[]client.Object{liar, used, leaseOf("leader")}, []string{ConditionNode}, ReasonNoSidecar,
		},
		"a sidecar that is not what it claims to be": {
			[]client.Object{
				sidecarOf("leader", "c", failed, both, offline), sidecarOf("real", "c", connected, both),
				used, leaseOf("real"),
			},
			[]string{ConditionNode},
			"",
		},
		"the node of the volume cannot reclaim": {
			[]client.Object{liar, old, leaseOf("x"), sidecarOf("x", "c", connected, both)},
			nil,
			ReasonUnsupported,
		},
		"the node of the volume can reclaim":    {[]client.Object{other, used}, nil, ReasonNoSidecar},
		"the node of the volume has no sidecar": {[]client.Object{liar}, nil, ReasonNoSidecar},
		"nothing is known":                      {nil, nil, ReasonNoSidecar},
	} {
		r := planning(t, one.objects...)
		j := &v1alpha1.ReclaimSpaceJob{}
		for _, condition := range one.done {
			r.set(j, condition, true, ReasonReclaimed, "")
		}
		next, problem, err := r.plan(t.Context(), j, volume{name: "pv", driver: "a"})
		got := ""
		if problem != nil {
			got = problem.reason
		}
		if err != nil || got != one.want || next.sidecar != nil {
			t.Errorf("%s: the plan is %+v with the obstacle %+v and the error %v, want %q", name, next,
				problem, err, one.want)
		}
	}
}

// Nothing can be reclaimed on a node that does not exist, so the job succeeds. The controller
// service is called first, if it can reclaim space.
func TestJobOfAnUnusedVolumeSucceeds(t *testing.T) {
	t.Parallel()
	const connected = v1alpha1.CSIAddonsNodeConnected
	node := sidecarOf("node", "used", connected, connection.NodeService, connection.ReclaimOnline)
	for name, one := range map[string]struct {
		objects []client.Object
		// controller is the reason of the condition of the controller service, or "" before its call.
		controller, problem, reason, message string
	}{
		"no controller service": {
			objects: []client.Object{node}, reason: ReasonNotInUse, message: "No node uses the volume",
		},
		"before the call of the controller service": {
			objects: []client.Object{
				node, leaseOf("leader"), sidecarOf("leader", "c", connected, connection.ControllerService,
					connection.ReclaimOffline),
			},
			problem: ReasonNoSidecar,
		},
		"the controller service cannot reclaim": {
			objects: []client.Object{node}, controller: ReasonUnimplemented, reason: ReasonNotInUse,
			message: "No node uses the volume",
		},
		"the controller service has reclaimed": {
			objects: []client.Object{node}, controller: ReasonReclaimed, reason: ReasonReclaimed,
			message: "The driver has reclaimed the unused space",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job, recorder := jobFor("job", "data"), events.NewFakeRecorder(1)
			unused := volumeFor("1")
			unused.Name = "unused"
			claim := claimOfTenant("1", corev1.ClaimBound)
			claim.Spec.VolumeName = unused.Name
			r := planning(t, append(one.objects, job, claim, unused)...)
			limited, _ := newSlots(t)
			r.slots.limits, r.slots.metrics, r.Events = limited.limits, limited.metrics, recorder
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
