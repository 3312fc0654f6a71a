package kubectl

import (
	"context"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	state := q.since(string(claim.Status.Phase), claim.CreationTimestamp.Time)
	return &answer{state, explain.Claim(*facts)}, nil
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
	facts.System, err = s.systemOf(ctx, provisioner)
	facts.ClassHidden = s.guest.hidden["StorageClasses"]
	facts.EventsHidden = s.guest.hidden["Events"]
	return facts, err
}

func explainSnapshot(ctx context.Context, q question) (*answer, error) {
	snapshot := &snapshotv1.VolumeSnapshot{}
	if err := q.read(ctx, snapshot); err != nil {
		return nil, err
	}
	facts := explain.SnapshotFacts{Snapshot: snapshot, Now: q.clock.Now()}
	var err error
	if name := snapshot.Spec.VolumeSnapshotClassName; name != nil {
		facts.Class, err = find(ctx, q.guest, "", *name, &snapshotv1.VolumeSnapshotClass{})
		if err != nil {
			return nil, err
		}
	}
	if facts.Class != nil {
		if facts.System, err = q.systemOf(ctx, facts.Class.Driver); err != nil {
			return nil, err
		}
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
	return &answer{q.since(state, snapshot.CreationTimestamp.Time), explain.Snapshot(facts)}, nil
}

func explainPod(ctx context.Context, q question) (*answer, error) {
	pod := &corev1.Pod{}
	if err := q.read(ctx, pod); err != nil {
		return nil, err
	}
	facts := explain.PodFacts{Now: q.clock.Now(), Pod: pod}
	var err error
	if facts.Events, err = q.events(ctx, q.guest, pod); err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		name := claimName(pod, v)
		if name == "" {
			continue
		}
		claim, err := find(ctx, q.guest, q.namespace, name, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, err
		}
		if claim == nil {
			if !q.guest.hidden["PersistentVolumeClaims"] {
				facts.Missing = append(facts.Missing, name)
			}
			continue
		}
		of, err := q.claim(ctx, claim)
		if err != nil {
			return nil, err
		}
		facts.Claims = append(facts.Claims, *of)
		if of.System != nil {
			used[of.System.Driver.Name] = true
		}
	}
	if err := q.addNode(ctx, &facts, used); err != nil {
		return nil, err
	}
	return &answer{
		q.since(string(pod.Status.Phase), pod.CreationTimestamp.Time),
		explain.Pod(facts),
	}, nil
}

// claimName returns the name of the claim of a volume; "" if it uses none.
func claimName(pod *corev1.Pod, v corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// addNode adds what is on the node of the pod: attachments, and the pods of the used drivers.
func (q question) addNode(
	ctx context.Context, facts *explain.PodFacts, used map[string]bool,
) error {
	node := facts.Pod.Spec.NodeName
	if node == "" || len(used) == 0 {
		return nil
	}
	var attachments storagev1.VolumeAttachmentList
	if err := q.guest.list(ctx, &attachments); err != nil {
		return err
	}
	for _, a := range attachments.Items {
		if a.Spec.NodeName == node {
			facts.Attachments = append(facts.Attachments, a)
		}
	}
	for _, d := range drivers() {
		if !used[d.name] {
			continue
		}
		var pods corev1.PodList
		if err := q.guest.list(ctx, &pods, client.InNamespace(d.namespace),
			client.MatchingFields{"spec.nodeName": node}); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool {
				return owner.Kind == "DaemonSet" && slices.Contains(d.nodes, owner.Name)
			}) {
				facts.NodePods = append(facts.NodePods, pod)
			}
		}
	}
	return nil
}
