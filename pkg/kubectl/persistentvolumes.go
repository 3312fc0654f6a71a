package kubectl

import (
	"context"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// volumeQuestion is about a PersistentVolume.
type volumeQuestion struct {
	question

	volume *corev1.PersistentVolume
	// handle is the ID in OpenStack, and claim the name of the claim.
	handle, claim string
}

func explainVolume(ctx context.Context, q question, v *corev1.PersistentVolume) *Explanation {
	f := volumeQuestion{q, v, "the storage", "claim"}
	if served := source.Of(v); served != nil {
		f.handle = served.VolumeHandle
	}
	if ref := v.Spec.ClaimRef; ref != nil {
		f.claim = "claim " + ref.Namespace + "/" + ref.Name
	}
	links := append(walk(ctx, f.path(ctx)), f.uninstalled(ctx, driverOf(v))...)
	return &Explanation{State: q.state(v, string(v.Status.Phase)), Chain: links}
}

// provisionedBy is an annotation of PersistentVolumes that were not created by hand.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// path returns the way of a volume until it is used, or after its claim until it is gone.
func (f *volumeQuestion) path(ctx context.Context) []step {
	v, phase, deleted := f.volume, f.volume.Status.Phase, f.volume.DeletionTimestamp != nil
	stored := step{name: "stored", why: func(ctx context.Context) []Link {
		return f.storedLinks(ctx, v)
	}}
	state := map[corev1.PersistentVolumePhase]string{
		corev1.VolumeBound: "used by " + f.claim, corev1.VolumeAvailable: "waits for a claim",
	}[phase]
	if state != "" && !deleted {
		return []step{{done: true, ok: only(OK, "%s, %s in OpenStack", state, f.handle)}, stored}
	}
	keeps := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	attachments, gone := f.attachmentsOf(ctx, v.Name), f.uninstalled(ctx, driverOf(v))
	snapshots := f.snapshots(ctx)
	return []step{
		{name: "unused", done: phase != corev1.VolumeBound, why: because(linkf(Problem,
			"its %s still uses it", f.claim).then("The volume is deleted after the claim"))},
		{name: "reclaimed", done: deleted || !keeps, why: because(linkf(Problem, "its %s is gone, and "+
			"the reclaim policy Retain keeps the volume", f.claim).
			then("Delete it here and in OpenStack, or reuse it: %s", unclaim(v.Name, "/uid")))},
		{name: "served", done: gone == nil, why: because(gone...)},
		{name: "detached", done: len(attachments) == 0, why: func(ctx context.Context) (links []Link) {
			for _, a := range attachments {
				links = append(links, f.stuck(ctx, a)...)
			}
			return links
		}},
		{name: "without snapshots", done: len(snapshots) == 0, why: func(ctx context.Context) []Link {
			return append([]Link{linkf(Problem, "OpenStack keeps volume %s while it has snapshots: "+
				"VolumeSnapshot %s", f.handle, diagnosis.List(snapshots)).
				then("Delete them, or wait until what creates them does so")}, f.errorLinks(ctx)...)
		}},
		stored,
		{name: "without snapshots", done: keeps || f.cloud.clouds == "", why: f.hiddenSnapshots},
		{name: "deleted", done: keeps, why: func(ctx context.Context) []Link {
			sys, own := f.systemOf(ctx, driverOf(v)), f.errorLinks(ctx)
			if len(own) == 0 && v.Annotations[provisionedBy] == "" {
				own = append(own, linkf(Problem, "no provisioner has created the volume, so none deletes %s "+
					"in OpenStack", f.handle).then("Delete it here and in OpenStack, or annotate it with %s: %s",
					provisionedBy, driverOf(v)))
			}
			return append(sys.judge(own, diagnosis.Provisioner),
				linkf(Progress, "%s is not deleted in OpenStack yet", f.handle).then("%s", sys.knows()))
		}},
		{name: "released", why: because(keptBy(v.Finalizers))},
	}
}

// hiddenSnapshots returns a problem for snapshots in OpenStack, which no VolumeSnapshot shows.
func (f *volumeQuestion) hiddenSnapshots(ctx context.Context) []Link {
	d := f.guest.findDriver(driverOf(f.volume))
	if d == nil || f.reach(ctx) != nil { // the step before has said why
		return nil
	}
	service, thing := d.service()
	snapshots, err := f.cloud.client.Snapshots(ctx, service, f.handle)
	var found []string
	for _, one := range snapshots {
		found = append(found, one.ID)
	}
	switch {
	case err != nil:
		return []Link{also(failure(err))}
	case len(found) == 0:
		return nil
	}
	return []Link{linkf(Problem, "OpenStack keeps volume %s while it has snapshots without a "+
		"VolumeSnapshot: %s", f.handle, diagnosis.List(found)).
		then("Yours: if nobody needs their data, openstack %s snapshot delete %s", thing,
			strings.Join(found, " "))}
}

// errorLinks returns the errors of the deletion.
func (f *volumeQuestion) errorLinks(ctx context.Context) []Link {
	sys := f.systemOf(ctx, driverOf(f.volume))
	w := work{
		fails: "volume " + f.handle + " cannot be deleted", reasons: []string{"VolumeFailedDelete"},
		knows: sys.knows(), names: sys.names(f.handle), runbook: runbookOperations,
		since: f.volume.CreationTimestamp.Time,
	}
	links := f.warnings(w, events(ctx, f.guest, f.volume))
	if f.volume.Status.Message != "" && len(links) == 0 {
		links = append(links, w.error("", f.volume.Status.Message))
	}
	f.addSecret(links, "PersistentVolume "+f.volume.Name, secretIn(f.volume.Annotations,
		"volume.kubernetes.io/provisioner-deletion-secret-", "annotation "))
	for i, l := range links {
		if l.topic == meaning.Attached {
			links[i] = l.then("No VolumeAttachment holds it: see openstack volume show %s -c attachments, "+
				"and detach it there if nobody uses it", f.handle)
		}
	}
	return links
}

// snapshots returns the VolumeSnapshots of the volume.
func (f *volumeQuestion) snapshots(ctx context.Context) (names []string) {
	for _, c := range list[snapshotv1.VolumeSnapshotContentList](ctx, f.guest).Items {
		if c.Spec.Driver == driverOf(f.volume) && c.Spec.Source.VolumeHandle != nil &&
			*c.Spec.Source.VolumeHandle == f.handle {
			names = append(names, c.Spec.VolumeSnapshotRef.Namespace+"/"+c.Spec.VolumeSnapshotRef.Name)
		}
	}
	slices.Sort(names)
	return names
}
