package kubectl

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/explain"
)

func explainPod(ctx context.Context, q question) (*answer, error) {
	pod := &corev1.Pod{}
	if err := q.read(ctx, pod); err != nil {
		return nil, err
	}
	facts := explain.PodFacts{
		Now: q.clock.Now(), Pod: pod, Events: events(ctx, q.guest, pod),
		Holders: map[string][]string{},
	}
	q.addNodes(ctx, &facts, q.addClaims(ctx, &facts))
	return &answer{state: q.state(pod, string(pod.Status.Phase)), links: explain.Pod(facts)}, nil
}

// addClaims adds the claims of the pod, and the pods on other nodes that share them. It returns the
// drivers of the claims.
func (q question) addClaims(ctx context.Context, facts *explain.PodFacts) map[string]bool {
	used := map[string]bool{}
	for _, v := range facts.Pod.Spec.Volumes {
		name := claimName(facts.Pod, v)
		if name == "" {
			continue
		}
		claim := find(ctx, q.guest, q.namespace, name, &corev1.PersistentVolumeClaim{})
		if claim == nil {
			if !q.guest.hidden["PersistentVolumeClaims"] {
				facts.Missing = append(facts.Missing, name)
			}
			continue
		}
		of := q.claim(ctx, claim)
		facts.Claims = append(facts.Claims, *of)
		if of.System != nil {
			used[of.System.Driver.Name] = true
		}
		for _, pod := range q.users(ctx, claim) {
			if pod.Spec.NodeName != "" && pod.Spec.NodeName != facts.Pod.Spec.NodeName {
				facts.Holders[name] = append(facts.Holders[name], pod.Name)
			}
		}
	}
	return used
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

// addNodes adds nodes and attachments, and the pods of the used drivers on the node of the pod.
func (q question) addNodes(
	ctx context.Context, facts *explain.PodFacts, used map[string]bool,
) {
	var nodes corev1.NodeList
	q.guest.read(ctx, &nodes)
	facts.Nodes = nodes.Items
	if len(used) == 0 {
		return
	}
	var csiNodes storagev1.CSINodeList
	var attachments storagev1.VolumeAttachmentList
	q.guest.read(ctx, &csiNodes)
	q.guest.read(ctx, &attachments)
	facts.CSINodes, facts.Attachments = csiNodes.Items, attachments.Items
	for _, d := range drivers() {
		if !used[d.name] || facts.Pod.Spec.NodeName == "" {
			continue
		}
		var pods corev1.PodList
		q.guest.read(ctx, &pods, client.InNamespace(d.namespace),
			client.MatchingFields{"spec.nodeName": facts.Pod.Spec.NodeName})
		for _, pod := range pods.Items {
			if slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool {
				return owner.Kind == "DaemonSet" && slices.Contains(d.nodes, owner.Name)
			}) {
				facts.NodePods = append(facts.NodePods, pod)
			}
		}
	}
}
