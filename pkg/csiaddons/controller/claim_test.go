package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

const (
	scheduleKey = v1alpha1.ReclaimSpaceScheduleAnnotation
	enableKey   = v1alpha1.ReclaimSpaceEnableAnnotation
	driversKey  = v1alpha1.ReclaimSpaceDriversAnnotation
)

type annotations = map[string]string

// scene is a bound claim "data" in the namespace "n" with the StorageClass "fast" and the driver
// "cinder", which can reclaim space.
type scene struct {
	*testing.T

	claims *Claims
	// again is when the claim is reconciled again without an event.
	again  time.Duration
	events chan string
}

func newScene(t *testing.T, claim, namespace, class annotations) *scene {
	t.Helper()
	known, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: namespace}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: class}},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "data", UID: "claim-1", Annotations: claim,
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To("fast"), VolumeName: "pv",
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{Namespace: "n", Name: "data", UID: "claim-1"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder"},
				},
			},
		},
		&v1alpha1.CSIAddonsNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: "sidecar"},
			Spec: v1alpha1.CSIAddonsNodeSpec{
				Driver: v1alpha1.CSIAddonsNodeDriver{Name: "cinder"},
			},
			Status: v1alpha1.CSIAddonsNodeStatus{Capabilities: []string{connection.ReclaimOnline}},
		},
	}
	recorder := events.NewFakeRecorder(100)
	f := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithIndex(&v1alpha1.ReclaimSpaceCronJob{}, indexClaim, unusual).
		WithIndex(&v1alpha1.CSIAddonsNode{}, connection.IndexDriver, func(o client.Object) []string {
			return []string{o.(*v1alpha1.CSIAddonsNode).Spec.Driver.Name}
		}).Build()
	return &scene{T: t, events: recorder.Events, claims: &Claims{
		Client: f, Live: f, Events: recorder,
		Drivers:    connection.Drivers{"cinder": {Namespaces: []string{"csi"}}},
		Precedence: ClaimFirst,
	}}
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) claim() *corev1.PersistentVolumeClaim {
	s.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	s.must(s.claims.Client.Get(s.Context(), types.NamespacedName{Namespace: "n", Name: "data"}, claim))
	return claim
}

// reconcile reconciles the claim, which must not change, and returns its ReclaimSpaceCronJobs.
func (s *scene) reconcile() []v1alpha1.ReclaimSpaceCronJob {
	s.Helper()
	before := s.claim()
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(before)}
	result, err := s.claims.Reconcile(s.Context(), request)
	if err != nil || result.RequeueAfter != s.again {
		s.Fatalf("Reconcile returned %+v, %v", result, err)
	}
	if diff := cmp.Diff(before, s.claim()); diff != "" {
		s.Errorf("the claim changed (-before +after):\n%s", diff)
	}
	var list v1alpha1.ReclaimSpaceCronJobList
	s.must(s.claims.Client.List(s.Context(), &list))
	return list.Items
}

// want reconciles, and compares schedule and origin of the only ReclaimSpaceCronJob. An empty
// schedule means that there is none.
func (s *scene) want(schedule, from string) {
	s.Helper()
	got := []string{}
	for _, one := range s.reconcile() {
		got = append(got, one.Spec.Schedule, one.Labels[v1alpha1.ScheduleFromLabel])
	}
	want := []string{}
	if schedule != "" {
		want = []string{schedule, from}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("schedule and its origin (-want +got):\n%s", diff)
	}
}

// annotate replaces the annotations of an object.
func (s *scene) annotate(object client.Object, name string, to annotations) {
	s.Helper()
	key := types.NamespacedName{Name: name}
	if _, ok := object.(*corev1.PersistentVolumeClaim); ok {
		key.Namespace = "n"
	}
	s.must(s.claims.Client.Get(s.Context(), key, object))
	object.SetAnnotations(to)
	s.must(s.claims.Client.Update(s.Context(), object))
}

func TestFirstScheduleCounts(t *testing.T) {
	t.Parallel()
	on := func(schedule string) annotations { return annotations{scheduleKey: schedule} }
	off := annotations{enableKey: "false"}
	for _, one := range []struct {
		name                    string
		precedence              Precedence
		claim, namespace, class annotations
		schedule, from          string
	}{
		{"nowhere", ClaimFirst, nil, nil, nil, "", ""},
		{"claim", ClaimFirst, on("@daily"), on("@weekly"), on("@yearly"), "@daily", claimKind},
		{"namespace", ClaimFirst, nil, on("@weekly"), on("@yearly"), "@weekly", namespaceKind},
		{"class", ClaimFirst, nil, nil, on("@yearly"), "@yearly", classKind},
		{"empty", ClaimFirst, on(" "), nil, on("@yearly"), "@yearly", classKind},
		{"spaces", ClaimFirst, on(" @daily\n"), nil, nil, "@daily", claimKind},
		{"disabled claim", ClaimFirst, off, on("@weekly"), on("@yearly"), "", ""},
		{"disabled namespace", ClaimFirst, on("@daily"), off, nil, "", ""},
		{"disabled class", ClaimFirst, on("@daily"), nil, off, "", ""},
		{
			"enabled", ClaimFirst,
			annotations{scheduleKey: "@daily", enableKey: "true"},
			nil, nil,
			"@daily", claimKind,
		},
		{"only class", ClassOnly, on("@daily"), off, on("@yearly"), "@yearly", classKind},
		{"not in class", ClassOnly, on("@daily"), on("@weekly"), nil, "", ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, one.claim, one.namespace, one.class)
			s.claims.Precedence = one.precedence
			s.want(one.schedule, one.from)
			s.want(one.schedule, one.from) // the second time changes nothing
		})
	}
}

func TestNamespaceScheduleIncludesTheListedDrivers(t *testing.T) {
	t.Parallel()
	for drivers, from := range map[string]string{
		"cinder": namespaceKind, "manila, cinder": namespaceKind, "manila": classKind,
		driversKey: classKind, "": classKind,
	} {
		s := newScene(t, nil, annotations{scheduleKey: "@daily", driversKey: drivers},
			annotations{scheduleKey: "@daily"})
		s.want("@daily", from)
	}
}

func TestChangedAnnotationsChangeTheCronJob(t *testing.T) {
	t.Parallel()
	s := newScene(t, annotations{scheduleKey: "@daily"}, annotations{scheduleKey: "@weekly"}, nil)
	s.want("@daily", claimKind)
	uid := s.reconcile()[0].UID
	s.annotate(&corev1.PersistentVolumeClaim{}, "data", annotations{scheduleKey: "@hourly"})
	s.want("@hourly", claimKind)
	s.annotate(&corev1.PersistentVolumeClaim{}, "data", nil)
	s.want("@weekly", namespaceKind)
	if got := s.reconcile()[0].UID; got != uid {
		t.Errorf("a change replaced the ReclaimSpaceCronJob %s by %s", uid, got)
	}
	s.annotate(&corev1.Namespace{}, "n", nil)
	s.want("", "")
}

// The driver is not connected, or its sidecars are gone: schedules that exist stay and change.
func TestScheduleStaysWithoutAConnectedDriver(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, annotations{scheduleKey: "@daily", driversKey: "cinder"}, nil)
	s.want("@daily", namespaceKind)
	node := &v1alpha1.CSIAddonsNode{}
	s.must(s.claims.Client.Get(t.Context(),
		types.NamespacedName{Namespace: "csi", Name: "sidecar"}, node))
	node.Status.State = v1alpha1.CSIAddonsNodeRetrying
	s.must(s.claims.Client.Update(t.Context(), node))
	s.want("@daily", namespaceKind)
	s.must(s.claims.Client.Delete(t.Context(), node))
	s.want("@daily", namespaceKind)
	s.annotate(&corev1.Namespace{}, "n", annotations{scheduleKey: "@weekly", driversKey: "cinder"})
	s.want("@weekly", namespaceKind)
}

func TestScheduleStaysWhileItsStorageClassIsReplaced(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, nil, annotations{scheduleKey: "@daily"})
	s.want("@daily", classKind)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	s.must(s.claims.Client.Delete(t.Context(), class))
	s.want("@daily", classKind)
	class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	s.must(s.claims.Client.Create(t.Context(), class))
	s.want("", "")
}

// A volume that was created by hand can have the name of a class that does not exist.
func TestRemovedAnnotationEndsTheScheduleWithoutAStorageClass(t *testing.T) {
	t.Parallel()
	s := newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
	s.must(s.claims.Client.Delete(t.Context(),
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}))
	s.want("@daily", claimKind)
	s.annotate(&corev1.PersistentVolumeClaim{}, "data", nil)
	s.want("", "")
}

func TestOnlyVolumesThatCanReclaimSpaceAreScheduled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*scene){
		"unbound": func(s *scene) {
			claim := s.claim()
			claim.Status.Phase = corev1.ClaimPending
			s.must(s.claims.Client.Status().Update(s.Context(), claim))
		},
		"volume of another claim": func(s *scene) {
			volume := &corev1.PersistentVolume{}
			s.must(s.claims.Client.Get(s.Context(), types.NamespacedName{Name: "pv"}, volume))
			volume.Spec.ClaimRef.UID = "claim-2"
			s.must(s.claims.Client.Update(s.Context(), volume))
		},
		"driver that is not served": func(s *scene) { s.claims.Drivers = nil },
		"sidecar in a foreign namespace": func(s *scene) {
			s.claims.Drivers = connection.Drivers{"cinder": {Namespaces: []string{"other"}}}
			s.again = unknownInterval
		},
		"driver without the capability": func(s *scene) {
			node := &v1alpha1.CSIAddonsNode{}
			s.must(s.claims.Client.Get(s.Context(),
				types.NamespacedName{Namespace: "csi", Name: "sidecar"}, node))
			node.Status.Capabilities = []string{connection.NodeService}
			s.must(s.claims.Client.Update(s.Context(), node))
			s.again = unknownInterval
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
			change(s)
			s.want("", "")
		})
	}
}

// cronJob returns a ReclaimSpaceCronJob for the claim.
func cronJob(name, state string, owned bool) *v1alpha1.ReclaimSpaceCronJob {
	one := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
			Annotations: annotations{v1alpha1.StateAnnotation: state},
		},
		Spec: v1alpha1.ReclaimSpaceCronJobSpec{Schedule: "@monthly"},
	}
	one.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = "data"
	if owned {
		one.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: claimKind, Name: "data", UID: "claim-1", Controller: ptr.To(true),
		}}
	}
	return one
}

func TestCronJobsOfOthers(t *testing.T) {
	t.Parallel()
	const managed, unmanaged = v1alpha1.ManagedState, v1alpha1.UnmanagedState
	named := annotations{scheduleKey: "@daily", v1alpha1.ReclaimSpaceCronJobAnnotation: "data-1700"}
	for _, one := range []struct {
		name     string
		claim    annotations
		existing []*v1alpha1.ReclaimSpaceCronJob
		want     []string // name and schedule of each that exists in the end
	}{
		{
			"the CSI-Addons for Ceph created one", named,
			[]*v1alpha1.ReclaimSpaceCronJob{cronJob("data-1700", managed, true)},
			[]string{"data-1700 @daily"},
		},
		{
			"the CSI-Addons for Ceph created two", named,
			[]*v1alpha1.ReclaimSpaceCronJob{
				cronJob("data-1700", managed, true), cronJob("data-1701", managed, true),
			},
			[]string{"data-1700 @daily"},
		},
		{
			"a user maintains one of the claim",
			annotations{scheduleKey: "@daily"},
			[]*v1alpha1.ReclaimSpaceCronJob{cronJob("data-reclaimspace", unmanaged, true)},
			[]string{"data-reclaimspace @monthly"},
		},
		{
			"a user maintains one, and removes the annotation", nil,
			[]*v1alpha1.ReclaimSpaceCronJob{cronJob("data-reclaimspace", unmanaged, true)},
			[]string{"data-reclaimspace @monthly"},
		},
		{
			"the annotation names one without an owner", named,
			[]*v1alpha1.ReclaimSpaceCronJob{cronJob("data-1700", managed, false)},
			[]string{"data-1700 @monthly"},
		},
		{
			"a user has another",
			annotations{scheduleKey: "@daily"},
			[]*v1alpha1.ReclaimSpaceCronJob{cronJob("own", "", false)},
			[]string{"data-reclaimspace @daily", "own @monthly"},
		},
		{
			"a user has another, and no annotation", nil,
			[]*v1alpha1.ReclaimSpaceCronJob{cronJob("own", managed, false)},
			[]string{"own @monthly"},
		},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, one.claim, nil, nil)
			for _, existing := range one.existing {
				s.must(s.claims.Client.Create(t.Context(), existing))
			}
			got := []string{}
			for _, found := range s.reconcile() {
				got = append(got, found.Name+" "+found.Spec.Schedule)
			}
			slices.Sort(got)
			if diff := cmp.Diff(one.want, got); diff != "" {
				t.Errorf("ReclaimSpaceCronJobs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsersKeepOtherFields(t *testing.T) {
	t.Parallel()
	s := newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
	one := s.reconcile()[0]
	one.Spec.Schedule, one.Spec.Suspend = "@yearly", ptr.To(true)
	s.must(s.claims.Client.Update(t.Context(), &one))
	got := s.reconcile()[0]
	if got.Spec.Schedule != "@daily" || !ptr.Deref(got.Spec.Suspend, false) {
		t.Errorf("the spec is %+v, want the schedule of the annotation and suspend of the user", got.Spec)
	}
}

func TestInvalidSchedulesAreReportedAtTheirOrigin(t *testing.T) {
	t.Parallel()
	long := "0 0 * * " + strings.Repeat("1,", 500) + "1"
	for text, want := range map[string]string{
		"every day": "every day", long: "0 0 * * 1,1,1,1,1,1,1,1,1,1,1,1,... (too long)",
	} {
		s := newScene(t, nil, annotations{scheduleKey: text}, nil)
		s.want(want, namespaceKind)
		select {
		case event := <-s.events:
			if !strings.Contains(event, ReasonInvalidSchedule) || !strings.Contains(event, scheduleKey) {
				t.Errorf("the event is %q", event)
			}
		default:
			t.Errorf("the schedule %.20q causes no event", text)
		}
		s.want(want, namespaceKind)
		if len(s.events) > 0 {
			t.Errorf("an unchanged schedule causes another event: %s", <-s.events)
		}
	}
}

func TestTakenNameIsReported(t *testing.T) {
	t.Parallel()
	s := newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
	other := cronJob("data-reclaimspace", v1alpha1.ManagedState, false)
	other.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = "other"
	s.must(s.claims.Client.Create(t.Context(), other))
	s.want("@monthly", "")
	if event := <-s.events; !strings.Contains(event, ReasonNameTaken) {
		t.Errorf("the event is %q", event)
	}
	// One of a deleted claim with the same name is no problem: Kubernetes deletes it.
	s = newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
	old := cronJob("data-reclaimspace", v1alpha1.ManagedState, true)
	old.OwnerReferences[0].UID = "claim-0"
	s.must(s.claims.Client.Create(t.Context(), old))
	s.want("@monthly", "")
	if len(s.events) > 0 {
		t.Errorf("the event is %q", <-s.events)
	}
}

func TestCronJobsOfClaimsBelongToThem(t *testing.T) {
	t.Parallel()
	s := newScene(t, annotations{scheduleKey: "@daily"}, nil, nil)
	got := s.reconcile()[0]
	owner := metav1.GetControllerOf(&got)
	if owner == nil || owner.UID != "claim-1" || owner.BlockOwnerDeletion != nil {
		t.Errorf("the owner is %+v, want the claim, without blocking its deletion", owner)
	}
	if got.Name != "data-reclaimspace" {
		t.Errorf("the name is %s", got.Name)
	}
	long := strings.Repeat("a", validation.DNS1123SubdomainMaxLength)
	if name := appended(long, cronJobSuffix); len(validation.IsDNS1123Subdomain(name)) > 0 {
		t.Errorf("the name for a claim with a long name is invalid: %s", name)
	}
}

// A change of any object leads to the claims that it affects.
func TestCronJobLeadsToItsClaims(t *testing.T) {
	t.Parallel()
	one := cronJob("x-reclaimspace", "", true)
	got := []string{}
	for _, request := range claimsOf(t.Context(), one) {
		got = append(got, request.String())
	}
	if diff := cmp.Diff([]string{"n/data", "n/data", "n/x"}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
