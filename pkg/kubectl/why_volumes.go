package kubectl

import (
	"cmp"
	"context"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/explain"
)

func explainClaim(ctx context.Context, q question) (*answer, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := q.read(ctx, claim); err != nil {
		return nil, err
	}
	facts := q.claim(ctx, claim)
	return &answer{
		state: q.state(claim, string(claim.Status.Phase)), links: explain.Claim(*facts),
	}, nil
}

// state says for how long an object has existed in a phase, or has been deleted.
func (q question) state(object client.Object, phase string) string {
	if deleted := object.GetDeletionTimestamp(); deleted != nil {
		return q.since("Terminating", deleted.Time)
	}
	return q.since(phase, object.GetCreationTimestamp().Time)
}

// claim reads the objects about a claim.
func (s *session) claim(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) *explain.ClaimFacts {
	facts := &explain.ClaimFacts{
		Claim: claim, Now: s.clock.Now(), Events: events(ctx, s.guest, claim), Hidden: s.guest.hidden,
	}
	provisioner := ""
	if name := ptr.Deref(claim.Spec.StorageClassName, ""); name != "" {
		facts.Class = find(ctx, s.guest, "", name, &storagev1.StorageClass{})
	}
	if facts.Class != nil {
		provisioner = facts.Class.Provisioner
	}
	if name := claim.Spec.VolumeName; name != "" {
		facts.Volume = find(ctx, s.guest, "", name, &corev1.PersistentVolume{})
	}
	if facts.Volume != nil {
		provisioner = cmp.Or(driverOf(facts.Volume), provisioner)
	}
	facts.System = s.systemOf(ctx, provisioner)
	facts.Gone = s.gone(facts.System, provisioner)
	s.addNames(ctx, facts)
	return facts
}

// gone returns the name of a driver of OpenStack without a ClusterCSIDriver, "" for others.
func (s *session) gone(sys *explain.System, driver string) string {
	if sys == nil && findDriver(driver) != nil && !s.guest.hidden["ClusterCSIDrivers"] {
		return driver
	}
	return ""
}

// addNames adds the names of StorageClasses and of pods that explain the state of the claim.
func (s *session) addNames(ctx context.Context, facts *explain.ClaimFacts) {
	if facts.Class == nil && facts.Claim.Status.Phase == corev1.ClaimPending {
		var classes storagev1.StorageClassList
		s.guest.read(ctx, &classes)
		for _, class := range classes.Items {
			facts.Classes = append(facts.Classes, class.Name)
		}
	}
	if facts.Claim.DeletionTimestamp != nil {
		for _, pod := range s.users(ctx, facts.Claim) {
			facts.Users = append(facts.Users, pod.Name)
		}
	}
}

// users returns the pods that use a claim and have not ended.
func (s *session) users(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) []corev1.Pod {
	var pods corev1.PodList
	s.guest.read(ctx, &pods, client.InNamespace(claim.Namespace))
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !uses(&pod, claim) })
}

// uses returns whether a pod uses a claim and has not ended.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return !ended && pod.Namespace == claim.Namespace &&
		slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return claimName(pod, v) == claim.Name
		})
}

func explainVolume(ctx context.Context, q question) (*answer, error) {
	facts := explain.VolumeFacts{Now: q.clock.Now(), Volume: &corev1.PersistentVolume{}}
	q.namespace = ""
	if err := q.read(ctx, facts.Volume); err != nil {
		return nil, err
	}
	facts.Events = events(ctx, q.guest, facts.Volume)
	facts.System = q.systemOf(ctx, driverOf(facts.Volume))
	var attachments storagev1.VolumeAttachmentList
	q.guest.read(ctx, &attachments)
	facts.Attachments = attachments.Items
	state := q.state(facts.Volume, string(facts.Volume.Status.Phase))
	return &answer{state: state, links: explain.Volume(facts)}, nil
}

func explainSnapshot(ctx context.Context, q question) (*answer, error) {
	snapshot := &snapshotv1.VolumeSnapshot{}
	if err := q.read(ctx, snapshot); err != nil {
		return nil, err
	}
	facts := explain.SnapshotFacts{
		Snapshot: snapshot, Now: q.clock.Now(), Events: events(ctx, q.guest, snapshot),
	}
	if name := snapshot.Spec.Source.PersistentVolumeClaimName; name != nil {
		facts.Source = find(ctx, q.guest, q.namespace, *name, &corev1.PersistentVolumeClaim{})
	}
	q.addSnapshotClass(ctx, &facts)
	status := ptr.Deref(snapshot.Status, snapshotv1.VolumeSnapshotStatus{})
	if name := status.BoundVolumeSnapshotContentName; name != nil {
		facts.Content = find(ctx, q.guest, "", *name, &snapshotv1.VolumeSnapshotContent{})
	}
	state := "not ready"
	if ptr.Deref(status.ReadyToUse, false) {
		state = "ready"
	}
	return &answer{state: q.state(snapshot, state), links: explain.Snapshot(facts)}, nil
}

// addSnapshotClass adds the class of the snapshot, by default that of the driver of its claim, and
// the driver.
func (q question) addSnapshotClass(ctx context.Context, facts *explain.SnapshotFacts) {
	var classes snapshotv1.VolumeSnapshotClassList
	q.guest.read(ctx, &classes)
	driver := ""
	if facts.Source != nil {
		if of := q.claim(ctx, facts.Source); of.System != nil {
			driver = of.System.Driver.Name
		}
	}
	want := facts.Snapshot.Spec.VolumeSnapshotClassName
	for i, c := range classes.Items {
		facts.Classes = append(facts.Classes, c.Name)
		byDefault := c.Annotations["snapshot.storage.kubernetes.io/is-default-class"] == "true"
		if want != nil && c.Name == *want || want == nil && byDefault && c.Driver == driver {
			facts.Class = &classes.Items[i]
		}
	}
	if facts.Class != nil {
		driver = facts.Class.Driver
	}
	facts.System = q.systemOf(ctx, driver)
	facts.Gone = q.gone(facts.System, driver)
}
