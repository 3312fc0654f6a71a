package kubectl

import (
	"context"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sourceLinks says what is wrong with the snapshot or the claim that a new claim is a copy of.
func (f *claimFacts) sourceLinks(ctx context.Context) []Link {
	name := f.claim.Spec.DataSource.Name
	switch f.claim.Spec.DataSource.Kind {
	case "VolumeSnapshot":
		return f.fromSnapshot(name, find(ctx, f.guest, f.claim.Namespace, name,
			&snapshotv1.VolumeSnapshot{}))
	case "PersistentVolumeClaim":
		from := find(ctx, f.guest, f.claim.Namespace, name, &corev1.PersistentVolumeClaim{})
		switch {
		case from == nil:
			return []Link{linkf(Problem, "pvc/%s, which it copies, does not exist", name).
				then("Create it, or a claim without dataSource")}
		case from.Status.Phase != corev1.ClaimBound:
			return []Link{linkf(Problem, "pvc/%s, which it copies, is %s", name, from.Status.Phase).
				then("Run: kubectl openstack-csi why pvc/%s -n %s", name, f.claim.Namespace)}
		}
	}
	return nil
}

// snapshotLinks returns the snapshots of a claim that are not finished.
func (f *claimFacts) snapshotLinks(ctx context.Context) (links []Link) {
	for _, s := range list[snapshotv1.VolumeSnapshotList](ctx, f.guest,
		client.InNamespace(f.claim.Namespace)).Items {
		if ptr.Deref(s.Spec.Source.PersistentVolumeClaimName, "") == f.claim.Name &&
			!ptr.Deref(ptr.Deref(s.Status, snapshotv1.VolumeSnapshotStatus{}).ReadyToUse, false) {
			links = append(links, linkf(Problem, "VolumeSnapshot %s of it is not finished", s.Name).
				then("Wait, or run: kubectl openstack-csi why volumesnapshot/%s -n %s", s.Name, s.Namespace))
		}
	}
	if len(links) == 0 {
		return []Link{linkf(Problem, "a snapshot of it is not finished").
			then("Run: kubectl get volumesnapshots -n %s", f.claim.Namespace)}
	}
	return links
}

// restoredLinks returns the claims that are copies of a snapshot and have no volume yet.
func (s *session) restoredLinks(
	ctx context.Context, from *snapshotv1.VolumeSnapshot,
) (links []Link) {
	for _, claim := range list[corev1.PersistentVolumeClaimList](ctx, s.guest,
		client.InNamespace(from.Namespace)).Items {
		of := ptr.Deref(claim.Spec.DataSource, corev1.TypedLocalObjectReference{})
		if of.Kind == "VolumeSnapshot" && of.Name == from.Name &&
			claim.Status.Phase == corev1.ClaimPending {
			links = append(links, linkf(Problem, "pvc/%s is being restored from it", claim.Name).
				then("Wait, or run: kubectl openstack-csi why pvc/%s -n %s", claim.Name, claim.Namespace))
		}
	}
	return links
}

// fromSnapshot says what is wrong with the snapshot that a claim restores.
func (f *claimFacts) fromSnapshot(name string, from *snapshotv1.VolumeSnapshot) []Link {
	if from == nil {
		if f.guest.hidden["VolumeSnapshots"] {
			return only(NotVisible, "VolumeSnapshot %s, which it restores", name)
		}
		return []Link{linkf(Problem, "VolumeSnapshot %s, which it restores, does not exist", name).
			then("Name one of: kubectl get volumesnapshots -n %s", f.claim.Namespace)}
	}
	status := ptr.Deref(from.Status, snapshotv1.VolumeSnapshotStatus{})
	want := f.claim.Spec.Resources.Requests.Storage()
	switch {
	case !ptr.Deref(status.ReadyToUse, false):
		return []Link{linkf(Problem, "VolumeSnapshot %s, which it restores, is not ready", name).
			then("Run: kubectl openstack-csi why volumesnapshot/%s -n %s", name, f.claim.Namespace)}
	case status.RestoreSize != nil && want.Cmp(*status.RestoreSize) < 0:
		return []Link{linkf(Problem, "it requests %s, and VolumeSnapshot %s, which it restores, needs %s",
			want, name, status.RestoreSize).then("Create a claim of %s or more", status.RestoreSize)}
	}
	return nil
}
