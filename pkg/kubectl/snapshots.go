package kubectl

import (
	"cmp"
	"context"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// snapshotFacts are the objects about a VolumeSnapshot. An object that is nil does not exist.
type snapshotFacts struct {
	*session

	snapshot *snapshotv1.VolumeSnapshot
	status   snapshotv1.VolumeSnapshotStatus
	class    *snapshotv1.VolumeSnapshotClass
	content  *snapshotv1.VolumeSnapshotContent
	// left says that the content has no snapshot any more.
	left bool
	// source is the claim of which it is the snapshot.
	source *corev1.PersistentVolumeClaim
	events []corev1.Event
	// classes are those of the driver, and defaults are the default ones.
	classes, defaults []string
	// driver serves the volume of the snapshot. sys is nil unless it is one of OpenStack.
	driver string
	sys    *system
}

func explainSnapshot(
	ctx context.Context, q question, snapshot *snapshotv1.VolumeSnapshot,
) *Explanation {
	f := &snapshotFacts{session: q.session, snapshot: snapshot}
	return f.explanation(ctx, snapshot)
}

// explainContent explains a VolumeSnapshotContent as its VolumeSnapshot, which may be gone.
func explainContent(
	ctx context.Context, q question, content *snapshotv1.VolumeSnapshotContent,
) *Explanation {
	f := &snapshotFacts{session: q.session, content: content}
	ref := f.content.Spec.VolumeSnapshotRef
	f.snapshot = find(ctx, q.guest, ref.Namespace, ref.Name, &snapshotv1.VolumeSnapshot{})
	f.left = f.snapshot == nil && !q.guest.hidden["VolumeSnapshots"] ||
		f.snapshot != nil && ref.UID != "" && ref.UID != f.snapshot.UID
	if f.snapshot == nil || f.left {
		f.snapshot = &snapshotv1.VolumeSnapshot{ObjectMeta: f.content.ObjectMeta}
		f.snapshot.Namespace, f.snapshot.Name = ref.Namespace, ref.Name
		f.snapshot.Spec.VolumeSnapshotClassName = f.content.Spec.VolumeSnapshotClassName
		if f.content.Status != nil {
			f.status.ReadyToUse = f.content.Status.ReadyToUse
		}
	}
	return f.explanation(ctx, f.content)
}

// explanation reads the other objects, and explains one of the two.
func (f *snapshotFacts) explanation(ctx context.Context, object client.Object) *Explanation {
	f.events = events(ctx, f.guest, f.snapshot)
	f.status = ptr.Deref(f.snapshot.Status, f.status)
	f.source = find(ctx, f.guest, f.snapshot.Namespace,
		ptr.Deref(f.snapshot.Spec.Source.PersistentVolumeClaimName, ""),
		&corev1.PersistentVolumeClaim{})
	if f.content == nil {
		name := cmp.Or(ptr.Deref(f.status.BoundVolumeSnapshotContentName, ""), f.static(),
			"snapcontent-"+string(f.snapshot.UID))
		f.content = find(ctx, f.guest, "", name, &snapshotv1.VolumeSnapshotContent{})
	}
	if f.content != nil { // its snapshotter writes events about it
		f.events = append(f.events, events(ctx, f.guest, f.content)...)
	}
	f.addClass(ctx)
	state := "not ready"
	if ptr.Deref(f.status.ReadyToUse, false) {
		state = "ready"
	}
	return &Explanation{State: f.state(object, state), Chain: walk(ctx, f.path())}
}

// static returns the name of the content that the snapshot imports, "" for one of a claim.
func (f *snapshotFacts) static() string {
	return ptr.Deref(f.snapshot.Spec.Source.VolumeSnapshotContentName, "")
}

// addClass adds the driver of the claim or the content, and the class of the snapshot, by default
// that of the driver.
func (f *snapshotFacts) addClass(ctx context.Context) {
	if f.source != nil {
		f.driver = f.factsOf(ctx, f.source).provisioner
	} else if f.content != nil && (f.left || f.static() != "") {
		f.driver = f.content.Spec.Driver
	}
	want := f.snapshot.Spec.VolumeSnapshotClassName
	for _, c := range list[snapshotv1.VolumeSnapshotClassList](ctx, f.guest).Items {
		isOurs := f.driver == "" || c.Driver == f.driver
		byDefault := isOurs && c.Annotations[charts.DefaultSnapshots] == "true"
		if isOurs {
			f.classes = append(f.classes, c.Name)
		}
		if byDefault {
			f.defaults = append(f.defaults, c.Name)
		}
		if want != nil && c.Name == *want || want == nil && byDefault {
			f.class = &c
		}
	}
	if f.class != nil && f.driver == "" {
		f.driver = f.class.Driver
	}
	f.sys = f.systemOf(ctx, f.driver)
}

// path returns the way of a snapshot until it is ready to use.
func (f *snapshotFacts) path() []step {
	name := ptr.Deref(f.snapshot.Spec.Source.PersistentVolumeClaimName, "")
	ignored := diagnosis.IsIgnored(f.snapshot, f.clock.Now()) && f.status.Error == nil &&
		len(f.events) == 0
	class := f.classLink()
	switch {
	case f.snapshot.DeletionTimestamp != nil:
		return f.deletion()
	case f.left:
		return []step{{name: "released", why: f.leftLinks}}
	case ptr.Deref(f.status.ReadyToUse, false) && !f.isContentDeleted():
		ready := only(OK, "the snapshot is ready to use%s", f.inOpenStack())
		return []step{{done: true, ok: ready}, {name: "stored", why: f.cloudLinks}}
	}
	return []step{
		{name: "processed", done: !ignored, why: func(ctx context.Context) []Link {
			l := linkf(Problem, "no snapshot controller has processed the snapshot for more than %v",
				diagnosis.SnapshotGrace)
			l.Runbook = "openstackcsinotserved"
			return []Link{l.then("%s", f.askSnapshotController(ctx))}
		}},
		{
			name: "source", done: name == "" || f.guest.hidden["PersistentVolumeClaims"] ||
				f.source != nil && f.source.Status.Phase == corev1.ClaimBound &&
					(f.source.DeletionTimestamp == nil || f.content != nil),
			why: because(unusable("pvc/"+name+", of which it is the snapshot,", f.source,
				"Delete the snapshot, or create the claim",
				"Delete the snapshot: no snapshot of it can begin now")...),
		},
		{name: "bound", done: f.static() == "" && !f.isContentDeleted(), why: f.contentLinks},
		{
			name: "class", done: f.static() != "" || class.State != Problem, ok: []Link{class},
			why: because(class),
		},
		{name: "created", why: func(ctx context.Context) []Link {
			links := f.sys.judge(f.errorLinks(ctx, "no snapshot can be created"), diagnosis.Snapshotter)
			if f.content == nil {
				return append(links, linkf(Progress, "no VolumeSnapshotContent exists yet").
					then("%s", f.askSnapshotController(ctx)))
			}
			return append(links, linkf(Progress, "OpenStack has not finished VolumeSnapshotContent %s%s",
				f.content.Name, f.inOpenStack()).then("%s", f.sys.knows()))
		}},
	}
}

// errorLinks returns what is wrong with the snapshot in OpenStack, the errors of it and of its
// content, and its events.
func (f *snapshotFacts) errorLinks(ctx context.Context, fails string) []Link {
	links := f.cloudLinks(ctx)
	w := work{
		fails: fails + f.of(), since: f.snapshot.CreationTimestamp.Time, knows: f.sys.knows(),
		runbook: runbookOperations,
	}
	if f.content != nil {
		w.names = f.sys.names(ptr.Deref(f.content.Spec.Source.VolumeHandle, ""))
		w.names[fault.Snapshot] = f.handle()
	}
	all := []*snapshotv1.VolumeSnapshotError{f.status.Error}
	if f.content != nil && f.content.Status != nil {
		all = append([]*snapshotv1.VolumeSnapshotError{f.content.Status.Error}, all...)
	}
	for _, e := range all {
		if e != nil && e.Message != nil {
			l := w.error("", *e.Message)
			if l.topic == meaning.Attached {
				l = l.then("Set %s to true, or stop the pods that use the volume",
					f.guest.setting("snapshotClass.forceCreate", "cinder"))
			}
			links = append(links, l)
		}
	}
	links = append(links, f.warnings(w, f.events)...)
	if f.content != nil && f.snapshot.DeletionTimestamp != nil {
		f.addSecret(links, "the VolumeSnapshotContent", secretIn(f.content.Annotations,
			"snapshot.storage.kubernetes.io/deletion-secret-", ""))
		return links
	}
	f.addSecret(links, "the VolumeSnapshotClass", secretIn(
		ptr.Deref(f.class, snapshotv1.VolumeSnapshotClass{}).Parameters,
		"csi.storage.k8s.io/snapshotter-secret-", ""))
	return links
}

// of names the claim of the snapshot.
func (f *snapshotFacts) of() string {
	if f.source == nil {
		return ""
	}
	return " of pvc/" + f.source.Name
}

// deletion returns what must end before a snapshot that is being deleted is gone.
func (f *snapshotFacts) deletion() []step {
	return []step{
		{name: "unused", why: f.restoredLinks},
		{name: "deleted", done: f.content == nil, why: func(ctx context.Context) []Link {
			fails := strings.TrimSpace("OpenStack does not delete snapshot " + f.handle())
			links := f.sys.judge(f.errorLinks(ctx, fails), diagnosis.Snapshotter)
			return append(links, linkf(Progress, "%s yet (VolumeSnapshotContent %s)", fails,
				f.content.Name).then("%s", f.sys.knows()))
		}},
		{
			name: "released", why: func(ctx context.Context) []Link {
				return []Link{keptBy(f.snapshot.Finalizers).then("%s", f.askSnapshotController(ctx))}
			},
		},
	}
}

// handle returns the ID of the snapshot in OpenStack, "" if there is none.
func (f *snapshotFacts) handle() string {
	if f.content == nil {
		return ""
	}
	status := ptr.Deref(f.content.Status, snapshotv1.VolumeSnapshotContentStatus{})
	return ptr.Deref(cmp.Or(status.SnapshotHandle, f.content.Spec.Source.SnapshotHandle), "")
}

// inOpenStack returns where the snapshot is, as the end of a sentence.
func (f *snapshotFacts) inOpenStack() string {
	if f.handle() == "" {
		return ""
	}
	return ", in OpenStack " + f.handle()
}
