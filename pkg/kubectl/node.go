package kubectl

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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
	f := &podFacts{session: q.session, node: node.Name}
	f.attachments = slices.DeleteFunc(list[storagev1.VolumeAttachmentList](ctx, q.guest).Items,
		func(a storagev1.VolumeAttachment) bool { return a.Spec.NodeName != node.Name })
	for _, d := range drivers() {
		if sys := q.systemOf(ctx, d.name); sys != nil {
			f.used = append(f.used, sys)
		}
	}
	f.addDrivers(ctx)
	links := append(f.nodeLinks(ctx, node), f.servedLinks()...)
	for _, a := range f.attachments {
		links = append(links, q.hanging(ctx, a)...)
	}
	state := "not ready"
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			state = "ready for " + q.age(c.LastTransitionTime.Time)
		}
	}
	return &Explanation{State: state, Chain: links}
}

// nodeLinks returns whether the kubelet answers, and the marks that concern volumes.
func (s *session) nodeLinks(ctx context.Context, node *corev1.Node) []Link {
	const mark = "node.kubernetes.io/out-of-service"
	out := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == mark })
	silent, next := s.silence(ctx, node.Name)
	l := linkf(Problem, "its kubelet has never answered").then("Read the log of the kubelet")
	for _, c := range node.Status.Conditions {
		since := s.age(c.LastTransitionTime.Time)
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue && out:
			l = linkf(Problem, "it is ready, but still marked as out of service").
				then("Run: kubectl taint node %s %s-", node.Name, mark)
		case c.Status == corev1.ConditionTrue:
			l = linkf(OK, "the kubelet answers")
		case out:
			l = linkf(Problem, "it has not been ready for %s, and is marked as out of service, so its "+
				"volumes are detached", since).then("Repair it, or delete the Node")
		case silent != "":
			l = linkf(Problem, "it %s, so its volumes stay attached", silent).then("%s", next)
		default:
			l = linkf(Problem, "the kubelet has not been ready for %s: %s", since, c.Message).
				then("Read the log of the kubelet")
		}
	}
	if node.Spec.Unschedulable {
		return []Link{l, linkf(Warning, "it is cordoned, so no new pod starts there").
			then("Run: kubectl uncordon %s", node.Name)}
	}
	return []Link{l}
}

// servedLinks returns whether the drivers run on the node, are registered with its kubelet, and can
// attach more volumes.
func (f *podFacts) servedLinks() []Link {
	if f.guest.hidden["Pods"] || f.guest.hidden["CSINodes"] {
		return only(NotVisible, "whether the drivers run on the node, and are registered")
	}
	if f.csiNode == nil {
		f.csiNode = &storagev1.CSINode{} // the kubelet writes it with the first driver
	}
	links := f.registrationLinks()
	if causeOf(links) == nil {
		links = f.pluginLinks()
	}
	for _, sys := range f.used {
		used := 0
		for _, a := range f.attachments {
			if a.Spec.Attacher == sys.of.name {
				used++
			}
		}
		switch limit := limitOf(*f.csiNode, sys.of.name); {
		case limit > 0 && used >= limit:
			links = append(links, linkf(Problem, "%d of %d volumes of driver %s are attached, so no other "+
				"pod with such a volume starts there", used, limit, sys.of.title).
				then("Use other nodes, or raise node-volume-attach-limit"))
		case limit > 0:
			links = append(links, linkf(OK, "%d of %d volumes of driver %s are attached", used, limit,
				sys.of.title))
		}
	}
	return links
}

// hanging returns a problem for an attachment that is not done in time, or not undone.
func (s *session) hanging(ctx context.Context, a storagev1.VolumeAttachment) []Link {
	since := a.CreationTimestamp.Time
	if a.DeletionTimestamp != nil {
		since = a.DeletionTimestamp.Time
	}
	if a.DeletionTimestamp == nil && a.Status.Attached || s.clock.Since(since) < hangs {
		return nil
	}
	links := about("VolumeAttachment "+a.Name+", for "+s.age(since), s.stuck(ctx, a))
	return []Link{*causeOf(links)}
}
