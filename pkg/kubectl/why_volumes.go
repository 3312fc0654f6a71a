package kubectl

import (
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
	facts, err := q.claim(ctx, claim)
	if err != nil {
		return nil, err
	}
	return &answer{q.state(claim, string(claim.Status.Phase)), explain.Claim(*facts)}, nil
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
) (*explain.ClaimFacts, error) {
	facts := &explain.ClaimFacts{Claim: claim, Now: s.clock.Now()}
	var err error
	provisioner := ""
	if name := ptr.Deref(claim.Spec.StorageClassName, ""); name != "" {
		facts.Class, err = find(ctx, s.guest, "", name, &storagev1.StorageClass{})
		if err != nil {
			return nil, err
		}
	}
	if facts.Class != nil {
		provisioner = facts.Class.Provisioner
	}
	if name := claim.Spec.VolumeName; name != "" {
		facts.Volume, err = find(ctx, s.guest, "", name, &corev1.PersistentVolume{})
		if err != nil {
			return nil, err
		}
	}
	if facts.Volume != nil && facts.Volume.Spec.CSI != nil {
		provisioner = facts.Volume.Spec.CSI.Driver
	}
	if facts.Events, err = s.events(ctx, s.guest, claim); err != nil {
		return nil, err
	}
	if facts.System, err = s.systemOf(ctx, provisioner); err != nil {
		return nil, err
	}
	facts.DriverHidden = s.guest.hidden["ClusterCSIDrivers"]
	if facts.System == nil && findDriver(provisioner) != nil && !facts.DriverHidden {
		facts.Gone = provisioner
	}
	if err := s.addNames(ctx, facts); err != nil {
		return nil, err
	}
	facts.ClassHidden = s.guest.hidden["StorageClasses"]
	facts.EventsHidden = s.guest.hidden["Events"]
	return facts, err
}

// addNames adds the names of StorageClasses and of pods that explain the state of the claim.
func (s *session) addNames(ctx context.Context, facts *explain.ClaimFacts) error {
	if facts.Class == nil && facts.Claim.Status.Phase == corev1.ClaimPending {
		var classes storagev1.StorageClassList
		if err := s.guest.list(ctx, &classes); err != nil {
			return err
		}
		for _, class := range classes.Items {
			facts.Classes = append(facts.Classes, class.Name)
		}
	}
	if facts.Claim.DeletionTimestamp == nil {
		return nil
	}
	pods, err := s.users(ctx, facts.Claim)
	for _, pod := range pods {
		facts.Users = append(facts.Users, pod.Name)
	}
	return err
}

// users returns the pods that use a claim and have not ended.
func (s *session) users(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := s.guest.list(ctx, &pods, client.InNamespace(claim.Namespace)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		return ended || !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return claimName(&pod, v) == claim.Name
		})
	}), nil
}

func explainVolume(ctx context.Context, q question) (*answer, error) {
	facts := explain.VolumeFacts{Now: q.clock.Now(), Volume: &corev1.PersistentVolume{}}
	q.namespace = ""
	err := q.read(ctx, facts.Volume)
	if err != nil {
		return nil, err
	}
	if facts.Events, err = q.events(ctx, q.guest, facts.Volume); err != nil {
		return nil, err
	}
	if csi := facts.Volume.Spec.CSI; csi != nil {
		if facts.System, err = q.systemOf(ctx, csi.Driver); err != nil {
			return nil, err
		}
	}
	var attachments storagev1.VolumeAttachmentList
	if err := q.guest.list(ctx, &attachments); err != nil {
		return nil, err
	}
	facts.Attachments = attachments.Items
	state := q.state(facts.Volume, string(facts.Volume.Status.Phase))
	return &answer{state, explain.Volume(facts)}, nil
}

func explainSnapshot(ctx context.Context, q question) (*answer, error) {
	snapshot := &snapshotv1.VolumeSnapshot{}
	if err := q.read(ctx, snapshot); err != nil {
		return nil, err
	}
	facts := explain.SnapshotFacts{Snapshot: snapshot, Now: q.clock.Now()}
	var err error
	if name := snapshot.Spec.Source.PersistentVolumeClaimName; name != nil {
		facts.Source, err = find(ctx, q.guest, q.namespace, *name, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, err
		}
	}
	if err := q.addSnapshotClass(ctx, &facts); err != nil {
		return nil, err
	}
	status := ptr.Deref(snapshot.Status, snapshotv1.VolumeSnapshotStatus{})
	if name := status.BoundVolumeSnapshotContentName; name != nil {
		facts.Content, err = find(ctx, q.guest, "", *name, &snapshotv1.VolumeSnapshotContent{})
		if err != nil {
			return nil, err
		}
	}
	if facts.Events, err = q.events(ctx, q.guest, snapshot); err != nil {
		return nil, err
	}
	state := "not ready"
	if ptr.Deref(status.ReadyToUse, false) {
		state = "ready"
	}
	return &answer{q.state(snapshot, state), explain.Snapshot(facts)}, nil
}

// addSnapshotClass adds the class of the snapshot, by default that of the driver of its claim, and
// the driver.
func (q question) addSnapshotClass(ctx context.Context, facts *explain.SnapshotFacts) error {
	var classes snapshotv1.VolumeSnapshotClassList
	if err := q.guest.list(ctx, &classes); err != nil {
		return err
	}
	driver := ""
	if facts.Source != nil {
		of, err := q.claim(ctx, facts.Source)
		if err != nil {
			return err
		}
		if of.System != nil {
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
	var err error
	if facts.Class != nil {
		driver = facts.Class.Driver
	}
	if facts.System, err = q.systemOf(ctx, driver); err != nil {
		return err
	}
	if facts.System == nil && findDriver(driver) != nil && !q.guest.hidden["ClusterCSIDrivers"] {
		facts.Gone = driver
	}
	return nil
}
