package kubectl

import (
	"context"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// sourceLinks says what is wrong with the snapshot or the claim that a new claim is a copy of.
func (f *claimFacts) sourceLinks(ctx context.Context) []Link {
	name := f.claim.Spec.DataSource.Name
	switch f.claim.Spec.DataSource.Kind {
	case "VolumeSnapshot":
		return f.snapshotLinks(name, find(ctx, f.guest, f.claim.Namespace, name,
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

func (f *claimFacts) snapshotLinks(name string, from *snapshotv1.VolumeSnapshot) []Link {
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
