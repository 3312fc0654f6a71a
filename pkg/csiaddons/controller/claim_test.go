package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// world is a fake API server, which is also the cache of the controller, with the events that the
// controller records. The driver "a" has pods in the namespace "drivers".
type world struct {
	*testing.T
	client.WithWatch

	events *events.FakeRecorder
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	known, err := newScheme()
	assert.NilError(t, err)
	kube := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.ReclaimSpaceJob{}, &v1alpha1.ReclaimSpaceCronJob{}).
		WithIndex(&storagev1.VolumeAttachment{}, indexVolume, byVolume).
		WithIndex(&v1alpha1.ReclaimSpaceJob{}, indexOwner, byOwner).
		WithIndex(&v1alpha1.ReclaimSpaceCronJob{}, indexClaim, unusual).Build()
	return &world{T: t, WithWatch: kube, events: events.NewFakeRecorder(100)}
}

func servedDrivers() connection.Drivers {
	return connection.Drivers{"a": {Namespaces: []string{"drivers"}}}
}

func (w *world) must(err error) {
	w.Helper()
	assert.NilError(w, err)
}

// read reads an object again.
func (w *world) read(o client.Object) {
	w.Helper()
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(o), o))
}

// claimOfTenant returns a claim in a phase, with the volume "pv" and the StorageClass "fast".
func claimOfTenant(uid types.UID, phase corev1.PersistentVolumeClaimPhase,
) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "data", UID: uid},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pv", StorageClassName: ptr.To("fast"),
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

// volumeFor returns the volume "pv" of the driver "a", which is bound to a claim.
func volumeFor(claim types.UID) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "tenant", Name: "data", UID: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "a"},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

// attachment returns the VolumeAttachment of the volume "pv" to the node "used".
func attachment() *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: storagev1.VolumeAttachmentSpec{
			NodeName: "used",
			Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv")},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
}

const (
	scheduleKey = v1alpha1.ReclaimSpaceScheduleAnnotation
	enableKey   = v1alpha1.ReclaimSpaceEnableAnnotation
	driversKey  = v1alpha1.ReclaimSpaceDriversAnnotation
)

type annotations = map[string]string

// scene is a bound claim "data" in the namespace "tenant" with the StorageClass "fast" and the
// driver "a", which can reclaim space.
type scene struct {
	*world

	claims *Claims
	// again is when the claim is reconciled again without an event.
	again time.Duration
}

func newScene(t *testing.T, claim, namespace, class annotations) *scene {
	t.Helper()
	bound := claimOfTenant("1", corev1.ClaimBound)
	bound.Annotations = claim
	w := newWorld(t, bound, volumeFor("1"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Annotations: namespace}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: class}},
		&v1alpha1.CSIAddonsNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: "sidecar"},
			Spec:       v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{Name: "a"}},
			Status:     v1alpha1.CSIAddonsNodeStatus{Capabilities: []string{connection.ReclaimOnline}},
		})
	return &scene{world: w, claims: &Claims{
		Client: w, Live: w, Events: w.events, Drivers: servedDrivers(),
	}}
}

// reconcile reconciles the claim, which must not change, and returns its ReclaimSpaceCronJobs.
func (s *scene) reconcile() []v1alpha1.ReclaimSpaceCronJob {
	s.Helper()
	var nodes v1alpha1.CSIAddonsNodeList
	s.must(s.List(s.Context(), &nodes))
	for i := range nodes.Items {
		s.claims.offering(s.Context(), &nodes.Items[i])
	}
	before := claimOfTenant("", "")
	s.read(before)
	after := before.DeepCopy()
	result, err := s.claims.Reconcile(s.Context(), before.DeepCopy())
	s.must(err)
	s.again = result.RequeueAfter
	s.read(after)
	assert.Check(s, is.DeepEqual(before, after), "the claim changed")
	var list v1alpha1.ReclaimSpaceCronJobList
	s.must(s.List(s.Context(), &list))
	return list.Items
}

// want reconciles, and compares schedule and origin of the only ReclaimSpaceCronJob. An empty
// schedule means that there is none.
func (s *scene) want(schedule, from string) {
	s.Helper()
	got, want := []string{}, []string{}
	for _, one := range s.reconcile() {
		got = append(got, one.Spec.Schedule, one.Labels[v1alpha1.ScheduleFromLabel])
	}
	if schedule != "" {
		want = []string{schedule, from}
	}
	assert.Check(s, is.DeepEqual(want, got), "schedule and its origin")
}

func TestFirstScheduleCounts(t *testing.T) {
	t.Parallel()
	on := func(schedule string) annotations { return annotations{scheduleKey: schedule} }
	of := func(drivers string) annotations {
		return annotations{scheduleKey: "@weekly", driversKey: drivers}
	}
	off := annotations{enableKey: "false"}
	enabled := annotations{scheduleKey: "@daily", enableKey: "true"}
	for _, one := range []struct {
		name                    string
		classOnly               bool
		claim, namespace, class annotations
		schedule, from          string
	}{
		{"nowhere", false, nil, nil, nil, "", ""},
		{"claim", false, on("@daily"), on("@weekly"), on("@yearly"), "@daily", claimKind},
		{"namespace", false, nil, on("@weekly"), on("@yearly"), "@weekly", namespaceKind},
		{"of drivers", false, nil, of("manila, a"), on("@yearly"), "@weekly", namespaceKind},
		{"of other drivers", false, nil, of("manila"), on("@yearly"), "@yearly", classKind},
		{"of no driver", false, nil, of(""), on("@yearly"), "@yearly", classKind},
		{"class", false, nil, nil, on("@yearly"), "@yearly", classKind},
		{"empty", false, on(" "), nil, on("@yearly"), "@yearly", classKind},
		{"spaces", false, on(" @daily\n"), nil, nil, "@daily", claimKind},
		{"disabled claim", false, off, on("@weekly"), on("@yearly"), "", ""},
		{"disabled namespace", false, on("@daily"), off, nil, "", ""},
		{"disabled class", false, on("@daily"), nil, off, "", ""},
		{"enabled", false, enabled, nil, nil, "@daily", claimKind},
		{"only class", true, on("@daily"), off, on("@yearly"), "@yearly", classKind},
		{"not in class", true, on("@daily"), on("@weekly"), nil, "", ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, one.claim, one.namespace, one.class)
			s.claims.ClassOnly = one.classOnly
			s.want(one.schedule, one.from)
			s.want(one.schedule, one.from) // the second time changes nothing
		})
	}
}

// Neither the StorageClass nor the sidecars end a schedule. A volume that was created by hand can
// have the name of a class that does not exist.
func TestScheduleStaysWhileItsObjectsAreReplaced(t *testing.T) {
	t.Parallel()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	s := newScene(t, nil, nil, annotations{scheduleKey: "@daily"})
	s.want("@daily", classKind)
	s.must(s.DeleteAllOf(t.Context(), &v1alpha1.CSIAddonsNode{}, client.InNamespace("drivers")))
	s.must(s.Delete(t.Context(), class))
	s.want("@daily", classKind)
	s.must(s.Create(t.Context(), class.DeepCopy()))
	s.want("", "")

	s = newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
	s.must(s.Delete(t.Context(), class))
	s.want("@daily", claimKind)
	claim := claimOfTenant("", "")
	s.read(claim)
	claim.Annotations = nil
	s.must(s.Update(t.Context(), claim))
	s.want("", "")
}

func TestOnlyVolumesThatCanReclaimSpaceAreScheduled(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		again  time.Duration
		change func(*scene)
	}{
		"unbound": {0, func(s *scene) {
			claim := claimOfTenant("", "")
			s.read(claim)
			claim.Status.Phase = corev1.ClaimPending
			s.must(s.Status().Update(s.Context(), claim))
		}},
		"volume of another claim": {unknownInterval, func(s *scene) {
			s.must(s.Update(s.Context(), volumeFor("2")))
		}},
		"driver that is not served": {0, func(s *scene) { s.claims.Drivers = nil }},
		"sidecar in a foreign namespace": {0, func(s *scene) {
			s.claims.Drivers = connection.Drivers{"a": {Namespaces: []string{"other"}}}
		}},
		"driver without the capability": {0, func(s *scene) {
			node := &v1alpha1.CSIAddonsNode{}
			s.must(s.Get(s.Context(), client.ObjectKey{Namespace: "drivers", Name: "sidecar"}, node))
			node.Status.Capabilities = []string{connection.NodeService}
			s.must(s.Update(s.Context(), node))
		}},
	} {
		s := newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
		one.change(s)
		s.want("", "")
		assert.Check(t, is.Equal(s.again, one.again), "%s: the time until the next check", name)
	}
}

// There may be thousands of claims whose driver cannot reclaim space: none is checked repeatedly.
func TestClaimsAreScheduledWhenTheirDriverCanReclaimSpace(t *testing.T) {
	t.Parallel()
	s := newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
	node := &v1alpha1.CSIAddonsNode{}
	s.must(s.Get(t.Context(), client.ObjectKey{Namespace: "drivers", Name: "sidecar"}, node))
	able := node.DeepCopy()
	node.Status.Capabilities = nil
	for _, one := range []struct {
		node *v1alpha1.CSIAddonsNode
		want int
	}{{node, 0}, {able, 1}, {able, 0}, {node, 0}} {
		got := s.claims.offering(t.Context(), one.node)
		assert.Check(t, is.Len(got, one.want), "with %v", one.node.Status.Capabilities)
	}
}

// cronJob returns a ReclaimSpaceCronJob for the claim. A claim with the UID owner owns it.
func cronJob(name, state string, owner types.UID) *v1alpha1.ReclaimSpaceCronJob {
	one := newCronJob(claimOfTenant(owner, ""), &origin{schedule: "@monthly"})
	one.Name, one.Labels, one.Annotations[v1alpha1.StateAnnotation] = name, nil, state
	if owner == "" {
		one.OwnerReferences = nil
	}
	return one
}

func TestCronJobsOfOthers(t *testing.T) {
	t.Parallel()
	const managed, unmanaged = v1alpha1.ManagedState, v1alpha1.UnmanagedState
	daily := annotations{scheduleKey: "@daily"}
	named := annotations{scheduleKey: "@daily", v1alpha1.ReclaimSpaceCronJobAnnotation: "data-1"}
	type cronJobs = []*v1alpha1.ReclaimSpaceCronJob
	maintained := cronJobs{cronJob("data-reclaimspace", unmanaged, "1")}
	for _, one := range []struct {
		name     string
		claim    annotations
		want     string // name and schedule of each that exists in the end
		existing cronJobs
	}{
		{"two of Ceph", named, "data-1 @daily", cronJobs{
			cronJob("data-1", managed, "1"), cronJob("data-2", managed, "1"),
		}},
		{"a user maintains that of the claim", daily, "data-reclaimspace @monthly", maintained},
		{"a user removes the annotation, too", nil, "data-reclaimspace @monthly", maintained},
		{"restored without an owner", daily, "data-reclaimspace @daily", cronJobs{
			cronJob("data-reclaimspace", managed, ""),
		}},
		{"the annotation names one without an owner", named, "data-1 @monthly", cronJobs{
			cronJob("data-1", managed, ""),
		}},
		{"a user has another", daily, "data-reclaimspace @daily, own @monthly", cronJobs{
			cronJob("own", "", ""),
		}},
		{"without annotation", nil, "own @monthly", cronJobs{cronJob("own", managed, "")}},
	} {
		s := newScene(t, one.claim, nil, nil)
		for _, existing := range one.existing {
			s.must(s.Create(t.Context(), existing.DeepCopy()))
		}
		var got []string
		for _, found := range s.reconcile() {
			got = append(got, found.Name+" "+found.Spec.Schedule)
			assert.Check(t, found.Name != "data-reclaimspace" || metav1.GetControllerOf(&found) != nil,
				"%s: %s has no owner", one.name, found.Name)
		}
		slices.Sort(got)
		assert.Check(t, is.Equal(strings.Join(got, ", "), one.want), one.name)
	}
}

func TestUsersKeepOtherFields(t *testing.T) {
	t.Parallel()
	s := newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
	one := s.reconcile()[0]
	owner := metav1.GetControllerOf(&one)
	assert.Check(t, owner != nil && owner.UID == "1" && owner.BlockOwnerDeletion == nil, "%+v", owner)
	one.Spec.Schedule, one.Spec.Suspend = "@yearly", ptr.To(true)
	s.must(s.Update(t.Context(), &one))
	got := s.reconcile()[0]
	assert.Check(t, is.Equal(got.Spec.Schedule, "@daily"))
	assert.Check(t, ptr.Deref(got.Spec.Suspend, false))
}

func TestInvalidSchedulesAreReportedAtTheirOrigin(t *testing.T) {
	t.Parallel()
	text := "0 0 * * " + strings.Repeat("1,", 500) + "1"
	s := newScene(t, nil, annotations{scheduleKey: text}, nil)
	for range 2 {
		s.want("0 0 * * 1,1,1,1,1,1,1,1,1,1,1,1,... (too long)", namespaceKind)
	}
	event := <-s.events.Events
	assert.Check(t, strings.Contains(event, ReasonInvalidSchedule) &&
		strings.Contains(event, scheduleKey) && len(s.events.Events) == 0,
		"the first event is %q, and %d follow", event, len(s.events.Events))
}

// One of a deleted claim with the same name is no problem: Kubernetes deletes it.
func TestTakenNameIsReported(t *testing.T) {
	t.Parallel()
	other := cronJob("data-reclaimspace", v1alpha1.ManagedState, "")
	other.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = "other"
	old := cronJob("data-reclaimspace", v1alpha1.ManagedState, "0")
	for existing, want := range map[*v1alpha1.ReclaimSpaceCronJob]int{other: 1, old: 0} {
		s := newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
		s.must(s.Create(t.Context(), existing))
		s.want("@monthly", "")
		assert.Check(t, is.Len(s.events.Events, want))
		assert.Check(t, is.Equal(s.again, unknownInterval), "the time until the next check")
	}
}
