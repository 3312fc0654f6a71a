package kubectl

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// hangs is how long an attachment may take.
const hangs = 2 * time.Minute

// explainNode explains what a node lacks to use volumes.
func explainNode(ctx context.Context, q question) *Explanation {
	node := &corev1.Node{}
	q.namespace = ""
	if !q.read(ctx, node) {
		return nil
	}
	links := q.nodeLinks(node)
	csiNode := find(ctx, q.guest, "", node.Name, &storagev1.CSINode{})
	attachments := slices.DeleteFunc(list[storagev1.VolumeAttachmentList](ctx, q.guest).Items,
		func(a storagev1.VolumeAttachment) bool { return a.Spec.NodeName != node.Name })
	for _, d := range drivers() {
		if sys := q.systemOf(ctx, d.name); sys != nil {
			links = append(links, sys.onNode(ctx, node.Name, csiNode, attachments)...)
		}
	}
	for _, a := range attachments {
		links = append(links, q.hanging(a)...)
	}
	return &Explanation{State: q.state(node, "registered"), Chain: links}
}

// nodeLinks returns whether the kubelet answers, and the marks that concern volumes.
func (s *session) nodeLinks(node *corev1.Node) []Link {
	const mark = "node.kubernetes.io/out-of-service"
	out := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == mark })
	links := only(Problem, "the node has no condition Ready: its kubelet has never answered. Read "+
		"its log")
	for _, c := range node.Status.Conditions {
		since := s.age(c.LastTransitionTime.Time)
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue && out:
			links = only(Problem, "the node is ready, but still marked as out of service. Run: kubectl "+
				"taint "+
				"node %s %s-", node.Name, mark)
		case c.Status == corev1.ConditionTrue:
			links = only(OK, "the kubelet has been ready for %s", since)
		case out:
			links = only(Problem, "the node has not been ready for %s, and is marked as out of service, so "+
				"its volumes are detached. Repair it, or delete the Node", since)
		case c.Status == corev1.ConditionUnknown:
			links = only(Problem, "the kubelet has not answered for %s, so its volumes stay attached. "+
				"Start "+
				"the node; or if it is shut down, run: kubectl taint node %s %s=nodeshutdown:NoExecute", since,
				node.Name, mark)
		default:
			links = only(Problem, "the kubelet has not been ready for %s: %s. Read its log", since,
				diagnosis.Short(c.Message))
		}
	}
	if node.Spec.Unschedulable {
		links = append(links, linkf(Warning, "the node is cordoned, so no new pod starts there. Run: "+
			"kubectl uncordon %s", node.Name))
	}
	return links
}

// onNode returns whether the driver runs on a node, is registered with its kubelet, and can attach
// more volumes.
func (s *system) onNode(
	ctx context.Context, node string, csiNode *storagev1.CSINode,
	attachments []storagev1.VolumeAttachment,
) (links []Link) {
	for _, pod := range list[corev1.PodList](ctx, s.guest, client.InNamespace(s.of.namespace),
		client.MatchingFields{"spec.nodeName": node}).Items {
		owner := ptr.Deref(metav1.GetControllerOf(&pod), metav1.OwnerReference{})
		if !slices.Contains(s.of.nodes, owner.Name) {
			continue
		}
		l := linkf(OK, "pod %s/%s of driver %s is ready", pod.Namespace, pod.Name, s.of.title)
		if state, _, trouble := diagnosis.PodTrouble(&pod); trouble != "" {
			l = linkf(state, "pod %s/%s of driver %s %s. Run: kubectl openstack-csi why pod/%[2]s -n %[1]s",
				pod.Namespace, pod.Name, s.of.title, strings.TrimPrefix(trouble, "pod "))
		}
		links = append(links, l)
	}
	if s.guest.hidden["Pods"] || s.guest.hidden["CSINodes"] {
		return append(links, linkf(NotVisible, "whether driver %s runs on the node, and is registered",
			s.of.title))
	}
	i := slices.IndexFunc(ptr.Deref(csiNode, storagev1.CSINode{}).Spec.Drivers,
		func(d storagev1.CSINodeDriver) bool { return d.Name == s.of.name })
	switch {
	case len(links) == 0:
		return only(Problem, "driver %s does not run on the node. Check the taints of the node, and "+
			"nodeSelector and tolerations in operator.yaml", s.of.title)
	case i < 0 && causeOf(links) == nil:
		return append(links, linkf(Problem, "driver %s is not registered with the kubelet, although "+
			"its pod "+
			"runs. Delete this pod; if it happens again, compare --root-dir of the kubelet with "+
			"kubeletDir in "+
			"operator.yaml", s.of.title))
	case i < 0:
		return links
	}
	used := 0
	for _, a := range attachments {
		if a.Spec.Attacher == s.of.name {
			used++
		}
	}
	resources := ptr.Deref(csiNode.Spec.Drivers[i].Allocatable, storagev1.VolumeNodeResources{})
	limit := int(ptr.Deref(resources.Count, 0))
	switch {
	case limit > 0 && used >= limit:
		return append(links, linkf(Problem, "%d of %d volumes of driver %s are attached, so the "+
			"scheduler "+
			"places no other pod with such a volume there. Use other nodes, or raise "+
			"node-volume-attach-limit", used, limit, s.of.title))
	case limit > 0:
		return append(links, linkf(OK, "%d of %d volumes of driver %s are attached", used, limit,
			s.of.title))
	}
	return links
}

// hanging returns a problem for an attachment that is not done in time, or not undone.
func (s *session) hanging(a storagev1.VolumeAttachment) []Link {
	volume, why := ptr.Deref(a.Spec.Source.PersistentVolumeName, "?"), "there is no error"
	what, since, failed := "attached", a.CreationTimestamp.Time, a.Status.AttachError
	if a.DeletionTimestamp != nil {
		what, since, failed = "detached", a.DeletionTimestamp.Time, a.Status.DetachError
	}
	if what == "attached" && a.Status.Attached || s.clock.Since(since) < hangs {
		return nil
	}
	if failed != nil {
		why = diagnosis.Short(failed.Message)
	}
	return only(Problem, "PersistentVolume %s has not been %s for %s (VolumeAttachment %s): %s. Run: "+
		"kubectl openstack-csi why pv/%[1]s", volume, what, s.age(since), a.Name, why)
}
