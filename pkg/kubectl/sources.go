package kubectl

import (
	"cmp"
	"context"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
)

// originOf returns the object that a claim is a copy of; nil if there is none.
func originOf(claim *corev1.PersistentVolumeClaim) *corev1.TypedObjectReference {
	of := claim.Spec.DataSourceRef
	if from := claim.Spec.DataSource; of == nil && from != nil {
		of = &corev1.TypedObjectReference{APIGroup: from.APIGroup, Kind: from.Kind, Name: from.Name}
	}
	return of
}

// isPopulated returns whether another controller than that of the driver fills the volume.
func (f *claimFacts) isPopulated() bool {
	of := originOf(f.claim)
	return of != nil && of.Kind != "VolumeSnapshot" && of.Kind != "PersistentVolumeClaim"
}

// sourceLinks says what is wrong with the object that a new claim is a copy of.
func (f *claimFacts) sourceLinks(ctx context.Context) []Link {
	from := originOf(f.claim)
	namespace := cmp.Or(ptr.Deref(from.Namespace, ""), f.claim.Namespace)
	switch from.Kind {
	case "VolumeSnapshot":
		return f.fromSnapshot(ctx, from.Name, find(ctx, f.guest, namespace, from.Name,
			&snapshotv1.VolumeSnapshot{}))
	case "PersistentVolumeClaim":
		return f.fromClaim(ctx, from.Name, find(ctx, f.guest, namespace, from.Name,
			&corev1.PersistentVolumeClaim{}))
	}
	w := work{
		fails: fmt.Sprintf("%s %s does not fill the claim", from.Kind, from.Name),
		knows: "See the controller of " + ptr.Deref(from.APIGroup, ""),
		since: f.claim.CreationTimestamp.Time,
	}
	return append(f.warnings(w, f.events), linkf(Progress, "the controller of %s has not filled it "+
		"from %s %s yet", ptr.Deref(from.APIGroup, ""), from.Kind, from.Name).
		then("Run: kubectl describe %s.%s %s -n %s; or see the log of its controller", from.Kind,
			ptr.Deref(from.APIGroup, ""), from.Name, namespace))
}

// fromClaim says what is wrong with the claim that a claim copies.
func (f *claimFacts) fromClaim(
	ctx context.Context, name string, from *corev1.PersistentVolumeClaim,
) []Link {
	of := "pvc/" + name + ", which it copies,"
	if links := unusable(of, from, "Create it, or a claim without dataSource",
		"Copy another claim"); links != nil {
		return links
	}
	volume := find(ctx, f.guest, "", from.Spec.VolumeName, &corev1.PersistentVolume{})
	return f.unlike(ctx, of, driverOf(volume), from.Spec.VolumeMode, from.Status.Capacity.Storage())
}

// unusable says why nothing can be made of a claim, and what to do if it is missing or deleted.
func unusable(of string, claim *corev1.PersistentVolumeClaim, missing, deleted string) []Link {
	switch {
	case claim == nil:
		return []Link{linkf(Problem, "%s does not exist", of).then("%s", missing)}
	case claim.DeletionTimestamp != nil:
		return []Link{linkf(Problem, "%s is being deleted", of).then("%s", deleted)}
	case claim.Status.Phase != corev1.ClaimBound:
		return []Link{linkf(Problem, "%s is %s", of, claim.Status.Phase).
			then("Run: kubectl openstack-csi why pvc/%s -n %s", claim.Name, claim.Namespace)}
	}
	return nil
}

// unlike says what the claim must have in common with the object that it is a copy of.
func (f *claimFacts) unlike(
	ctx context.Context, of, driver string, mode *corev1.PersistentVolumeMode,
	least *resource.Quantity,
) []Link {
	want := f.claim.Spec.Resources.Requests.Storage()
	switch {
	case driver != "" && f.class != nil && driver != f.class.Provisioner:
		var classes []string
		for _, c := range list[storagev1.StorageClassList](ctx, f.guest).Items {
			if c.Provisioner == driver {
				classes = append(classes, c.Name)
			}
		}
		title := f.guest.titleOf(driver)
		return []Link{linkf(Problem, "%s is of %s, and StorageClass %s of %s", of, title, f.class.Name,
			f.guest.titleOf(f.class.Provisioner)).
			then("Create the claim again with a StorageClass of %s: %s",
				title, cmp.Or(diagnosis.List(classes), "create one"))}
	case least != nil && want.Cmp(*least) < 0:
		return []Link{linkf(Problem, "it requests %s, and %s needs %s", want, of, least).
			then("Create a claim of %s or more", least)}
	case mode != nil && modeOf(mode) != modeOf(f.claim.Spec.VolumeMode):
		return []Link{linkf(Problem, "it wants the volumeMode %s, and %s has %s",
			modeOf(f.claim.Spec.VolumeMode), of, *mode).
			then("Create the claim again with volumeMode: %s", *mode)}
	}
	return nil
}

// sourceClass names the class of the claim that the claim is a copy of, if it is known.
func (f *claimFacts) sourceClass(ctx context.Context) string {
	from := ptr.Deref(originOf(f.claim), corev1.TypedObjectReference{})
	namespace, name := cmp.Or(ptr.Deref(from.Namespace, ""), f.claim.Namespace), from.Name
	if from.Kind == "VolumeSnapshot" {
		snapshot := ptr.Deref(find(ctx, f.guest, namespace, name, &snapshotv1.VolumeSnapshot{}),
			snapshotv1.VolumeSnapshot{})
		name = ptr.Deref(snapshot.Spec.Source.PersistentVolumeClaimName, "")
	}
	claim := ptr.Deref(find(ctx, f.guest, namespace, name, &corev1.PersistentVolumeClaim{}),
		corev1.PersistentVolumeClaim{})
	if class := ptr.Deref(claim.Spec.StorageClassName, ""); class != "" {
		return ": StorageClass " + class
	}
	return ""
}

// snapshotLinks returns the snapshots of a claim that are not finished.
func (f *claimFacts) snapshotLinks(ctx context.Context) (links []Link) {
	for _, s := range list[snapshotv1.VolumeSnapshotList](ctx, f.guest,
		client.InNamespace(f.claim.Namespace)).Items {
		if ptr.Deref(s.Spec.Source.PersistentVolumeClaimName, "") == f.claim.Name &&
			!ptr.Deref(ptr.Deref(s.Status, snapshotv1.VolumeSnapshotStatus{}).ReadyToUse, false) {
			links = append(links, unfinished(&s))
		}
	}
	if len(links) == 0 {
		return []Link{linkf(Problem, "a snapshot of it is not finished").
			then("Run: kubectl get volumesnapshots -n %s", f.claim.Namespace)}
	}
	return links
}

// unfinished says why a claim waits for its VolumeSnapshot.
func unfinished(s *snapshotv1.VolumeSnapshot) Link {
	run := fmt.Sprintf("run: kubectl openstack-csi why volumesnapshot/%s -n %s", s.Name, s.Namespace)
	if s.Status == nil || s.Status.Error == nil {
		return linkf(Problem, "VolumeSnapshot %s of it is not finished", s.Name).then("Wait, or %s", run)
	}
	l := linkf(Problem, "VolumeSnapshot %s of it fails: %s", s.Name,
		fault.Parse(ptr.Deref(s.Status.Error.Message, "")).Message)
	return l.then("Delete VolumeSnapshot %s if nobody needs it, or %s", s.Name, run)
}

// restoredLinks returns the claims that are copies of the snapshot and have no volume yet.
func (f *snapshotFacts) restoredLinks(ctx context.Context) (links []Link) {
	for _, claim := range list[corev1.PersistentVolumeClaimList](ctx, f.guest,
		client.InNamespace(f.snapshot.Namespace)).Items {
		of := ptr.Deref(originOf(&claim), corev1.TypedObjectReference{})
		if of.Kind == "VolumeSnapshot" && of.Name == f.snapshot.Name &&
			claim.Status.Phase == corev1.ClaimPending {
			links = append(links, linkf(Problem, "pvc/%s is to be restored from it, which the provisioner "+
				"does not begin any more", claim.Name).then("Delete this claim, which has no volume: kubectl "+
				"delete pvc %s -n %s", claim.Name, claim.Namespace))
		}
	}
	return links
}

// fromSnapshot says what is wrong with the snapshot that a claim restores.
func (f *claimFacts) fromSnapshot(
	ctx context.Context, name string, from *snapshotv1.VolumeSnapshot,
) []Link {
	of := fmt.Sprintf("VolumeSnapshot %s, which it restores,", name)
	if from == nil {
		if f.guest.hidden["VolumeSnapshots"] {
			return only(NotVisible, "VolumeSnapshot %s, which it restores", name)
		}
		return []Link{linkf(Problem, "%s does not exist in namespace %s, and a claim restores only "+
			"those of its namespace", of, f.claim.Namespace).
			then("Name another one, or restore it where it is: kubectl get volumesnapshots -A")}
	}
	status := ptr.Deref(from.Status, snapshotv1.VolumeSnapshotStatus{})
	switch {
	case from.DeletionTimestamp != nil:
		return []Link{linkf(Problem, "%s is being deleted", of).then("Restore another VolumeSnapshot")}
	case !ptr.Deref(status.ReadyToUse, false):
		return []Link{linkf(Problem, "%s is not ready", of).
			then("Run: kubectl openstack-csi why volumesnapshot/%s -n %s", name, from.Namespace)}
	}
	content := ptr.Deref(find(ctx, f.guest, "", ptr.Deref(status.BoundVolumeSnapshotContentName, ""),
		&snapshotv1.VolumeSnapshotContent{}), snapshotv1.VolumeSnapshotContent{})
	mode := content.Spec.SourceVolumeMode
	if content.Annotations["snapshot.storage.kubernetes.io/allow-volume-mode-change"] == "true" {
		mode = nil
	}
	return f.unlike(ctx, of, content.Spec.Driver, mode, status.RestoreSize)
}
