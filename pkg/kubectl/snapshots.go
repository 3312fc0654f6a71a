package kubectl

import (
	"cmp"
	"context"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

func explainVolume(ctx context.Context, q question) *Explanation {
	v := &corev1.PersistentVolume{}
	q.namespace = ""
	if !q.read(ctx, v) {
		return nil
	}
	links := q.volumeLinks(v, events(ctx, q.guest, v), q.systemOf(ctx, driverOf(v)),
		list[storagev1.VolumeAttachmentList](ctx, q.guest).Items)
	return &Explanation{State: q.state(v, string(v.Status.Phase)), Chain: links}
}

func (s *session) volumeLinks(v *corev1.PersistentVolume, events []corev1.Event, sys *system,
	attachments []storagev1.VolumeAttachment,
) []Link {
	handle, claim := "the storage", "its claim"
	if served := source.Of(v); served != nil {
		handle = served.VolumeHandle + " in OpenStack"
	}
	if ref := v.Spec.ClaimRef; ref != nil {
		claim = "its claim " + ref.Namespace + "/" + ref.Name
	}
	phase, deleted := v.Status.Phase, v.DeletionTimestamp != nil
	keeps := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	switch {
	case !deleted && phase == corev1.VolumeReleased && keeps:
		return only(Problem, "%s is gone, and the reclaim policy Retain keeps %s. Delete both the "+
			"PersistentVolume and %[2]s; or to use the data again, run: %s, and create the claim", claim,
			handle, unclaim(v.Name))
	case deleted && phase == corev1.VolumeBound:
		return only(Problem, "%s still uses it. The volume is deleted after the claim", claim)
	case phase == corev1.VolumeBound:
		return only(OK, "used by %s, %s", strings.TrimPrefix(claim, "its "), handle)
	case !deleted && phase == corev1.VolumeAvailable:
		return only(OK, "waits for a claim, %s", handle)
	}
	var own []Link
	for _, a := range attachments {
		if ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == v.Name {
			own = append(own, linkf(Problem, "%s is still attached to node %s (VolumeAttachment %s)",
				handle, a.Spec.NodeName, a.Name))
		}
	}
	said, known := s.said(events, v.CreationTimestamp.Time)
	if len(own) > 0 {
		known = decisive
	}
	own = append(own, said...)
	if v.Status.Message != "" && len(own) == 0 {
		l, leads := errorLink(v.Status.Message)
		own, known = append(own, l), leads
	}
	links := blame(own, known, sys, diagnosis.Provisioner)
	return append(links, linkf(Progress, "%s is not deleted yet", handle))
}

// snapshotFacts are the objects about a VolumeSnapshot. An object that is nil does not exist.
type snapshotFacts struct {
	*session

	snapshot *snapshotv1.VolumeSnapshot
	status   snapshotv1.VolumeSnapshotStatus
	class    *snapshotv1.VolumeSnapshotClass
	content  *snapshotv1.VolumeSnapshotContent
	source   *corev1.PersistentVolumeClaim
	events   []corev1.Event
	classes  []string
	// driver serves the snapshot. sys is nil unless it is one of OpenStack.
	driver string
	sys    *system
}

func explainSnapshot(ctx context.Context, q question) *Explanation {
	f := &snapshotFacts{session: q.session, snapshot: &snapshotv1.VolumeSnapshot{}}
	if !q.read(ctx, f.snapshot) {
		return nil
	}
	f.events = events(ctx, q.guest, f.snapshot)
	f.status = ptr.Deref(f.snapshot.Status, f.status)
	f.source = find(ctx, q.guest, q.namespace,
		ptr.Deref(f.snapshot.Spec.Source.PersistentVolumeClaimName, ""),
		&corev1.PersistentVolumeClaim{})
	f.addClass(ctx)
	f.content = find(ctx, q.guest, "", ptr.Deref(f.status.BoundVolumeSnapshotContentName, ""),
		&snapshotv1.VolumeSnapshotContent{})
	state := "not ready"
	if ptr.Deref(f.status.ReadyToUse, false) {
		state = "ready"
	}
	return &Explanation{State: q.state(f.snapshot, state), Chain: f.links()}
}

// addClass adds the class of the snapshot, by default that of the driver of its claim, and the
// driver.
func (f *snapshotFacts) addClass(ctx context.Context) {
	if f.source != nil {
		if of := f.factsOf(ctx, f.source); of.sys != nil {
			f.driver = of.provisioner
		}
	}
	classes := list[snapshotv1.VolumeSnapshotClassList](ctx, f.guest).Items
	f.classes = namesOf(classes)
	want := f.snapshot.Spec.VolumeSnapshotClassName
	for i, c := range classes {
		byDefault := c.Annotations["snapshot.storage.kubernetes.io/is-default-class"] == "true"
		if want != nil && c.Name == *want || want == nil && byDefault && c.Driver == f.driver {
			f.class = &classes[i]
		}
	}
	if f.class != nil {
		f.driver = f.class.Driver
	}
	f.sys = f.systemOf(ctx, f.driver)
}

func (f *snapshotFacts) links() []Link {
	own, known := f.errorLinks()
	switch {
	case f.snapshot.DeletionTimestamp != nil:
		return f.deletionLinks(own, known)
	case ptr.Deref(f.status.ReadyToUse, false):
		return only(OK, "the snapshot is ready to use%s", f.handle())
	case diagnosis.IsIgnored(f.snapshot, f.clock.Now()):
		l := linkf(Problem, "no snapshot controller has processed the snapshot for more than %v. "+
			"Install a snapshot controller, or check the logs of the one in the cluster",
			diagnosis.SnapshotGrace)
		l.Runbook = "openstackcsinotserved"
		return []Link{l}
	}
	links := []Link{f.classLink()}
	if f.source != nil && f.source.Status.Phase != corev1.ClaimBound {
		links = append(only(Problem, "pvc/%s, of which it is the snapshot, is %s. Run: kubectl "+
			"openstack-csi why pvc/%[1]s", f.source.Name, f.source.Status.Phase), nearby(links)...)
		known = decisive
	}
	links = append(links, blame(own, known, f.sys, diagnosis.Snapshotter)...)
	if f.content == nil {
		return append(links, linkf(Progress, "no VolumeSnapshotContent exists yet"))
	}
	return append(links, linkf(Progress, "OpenStack has not finished VolumeSnapshotContent %s%s",
		f.content.Name, f.handle()))
}

// errorLinks returns the errors of the snapshot and of its content, or else its events.
func (f *snapshotFacts) errorLinks() (links []Link, known certainty) {
	all := []*snapshotv1.VolumeSnapshotError{f.status.Error}
	if f.content != nil && f.content.Status != nil {
		all = append([]*snapshotv1.VolumeSnapshotError{f.content.Status.Error}, all...)
	}
	for _, e := range all {
		if e != nil && e.Message != nil {
			l, leads := errorLink(*e.Message)
			links, known = append(links, l), max(known, leads)
		}
	}
	if len(links) == 0 {
		return f.said(f.events, f.snapshot.CreationTimestamp.Time)
	}
	return links, known
}

// deletionLinks says what keeps a snapshot that is being deleted.
func (f *snapshotFacts) deletionLinks(own []Link, known certainty) []Link {
	if f.content == nil {
		return only(Problem, "kept by the finalizers %s. Check the snapshot controller",
			strings.Join(f.snapshot.Finalizers, ", "))
	}
	links := blame(own, known, f.sys, diagnosis.Snapshotter)
	l := linkf(Problem, "OpenStack has not deleted snapshot%s (VolumeSnapshotContent %s)",
		strings.TrimPrefix(f.handle(), ", in OpenStack"), f.content.Name)
	if c := causeOf(links); c != nil {
		l.Text += ": " + c.Text
	}
	l.Runbook = runbookOperations
	return append([]Link{l}, links...)
}

func (f *snapshotFacts) handle() string {
	if f.content == nil || f.content.Status == nil || f.content.Status.SnapshotHandle == nil {
		return ""
	}
	return ", in OpenStack " + *f.content.Status.SnapshotHandle
}

func (f *snapshotFacts) classLink() Link {
	name, exist := f.snapshot.Spec.VolumeSnapshotClassName, ""
	if len(f.classes) > 0 {
		exist = ". These exist: " + strings.Join(f.classes, ", ")
	}
	switch {
	case f.class != nil && name == nil:
		return linkf(OK, "VolumeSnapshotClass %s, the default", f.class.Name)
	case name == nil:
		return linkf(Problem, "the snapshot names no VolumeSnapshotClass, and none is the default of "+
			"its driver. Name one in spec.volumeSnapshotClassName%s", exist)
	case f.class == nil:
		return linkf(Problem, "VolumeSnapshotClass %s does not exist%s", *name,
			cmp.Or(closest(*name, f.classes), exist))
	case f.isGone(f.sys, f.driver):
		return Link{Problem, goneText(f.driver), runbookAbsent}
	case f.sys == nil:
		return linkf(Warning, "VolumeSnapshotClass %s is of driver %s, which these operators do not "+
			"maintain", *name, f.class.Driver)
	}
	return linkf(OK, "VolumeSnapshotClass %s, driver %s", *name, f.sys.of.title)
}
