package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// hangs is how long an attachment may take.
const hangs = 2 * time.Minute

// explainNode explains what a node lacks to use volumes.
func explainNode(ctx context.Context, q question, node *corev1.Node) *Explanation {
	f := &podFacts{session: q.session, node: node.Name}
	for _, d := range q.guest.drivers() {
		if sys := q.systemOf(ctx, d.name); sys != nil {
			f.used = append(f.used, sys)
		}
	}
	f.addDrivers(ctx)
	links := append(f.nodeLinks(node), f.servedLinks(ctx)...)
	for _, a := range q.attachments(ctx) {
		if a.Spec.NodeName == node.Name {
			links = append(links, q.hanging(ctx, a)...)
		}
	}
	state := "not ready"
	if c := readiness(node); c.Status == corev1.ConditionTrue {
		state = "ready for " + q.age(c.LastTransitionTime.Time)
	}
	return &Explanation{State: state, Chain: links}
}

// nodeLinks returns what is wrong with the node itself.
func (s *session) nodeLinks(node *corev1.Node) []Link {
	l := linkf(OK, "the kubelet answers")
	if trouble, next := s.ailing(node); trouble != "" {
		l = linkf(Problem, "it %s", trouble).then("%s", next)
	}
	for _, t := range node.Spec.Taints {
		if next := remover(t); next != "" && !isCondition(t) && l.State == OK {
			l = linkf(Warning, "it has the taint %s", t.Key).then("%s", next)
		}
	}
	if node.Spec.Unschedulable {
		return []Link{l, linkf(Warning, "it is cordoned, so no new pod starts there").
			then("Run: kubectl uncordon %s", node.Name)}
	}
	return []Link{l}
}

// silence says that the kubelet of a node does not work, and what to do; "" if it does, or the node
// is not visible.
func (s *session) silence(ctx context.Context, name string) (trouble, next string) {
	node := s.node(ctx, name)
	switch {
	case node != nil:
		return s.unready(node)
	case s.guest.hidden["Nodes"]:
		return "", ""
	}
	return "does not exist any more", "If its server in OpenStack is shut down or deleted, " +
		"delete the VolumeAttachments to the node and force the deletion of its pods"
}

// unready says why a node is not ready, and what to do; "" if it is ready.
func (s *session) unready(node *corev1.Node) (trouble, next string) {
	ready := readiness(node)
	since := s.age(ready.LastTransitionTime.Time)
	switch {
	case ready.Status == corev1.ConditionTrue:
		return "", ""
	case ready.Status == "":
		return "has a kubelet that has never answered", "Read the log of the kubelet"
	case isOut(node):
		return "has not been ready for " + since + ", and is marked as out of service, so its " +
			"volumes are detached", "Repair it, or delete the Node"
	case ready.Status == corev1.ConditionUnknown:
		return "has not answered for " + since, fmt.Sprintf("Start it; or if it is shut down, run: "+
			"kubectl taint node %s %s=nodeshutdown:NoExecute", node.Name, corev1.TaintNodeOutOfService)
	}
	if strings.Contains(ready.Message, "network not ready") {
		next = "Check the pods of the network plugin on node " + node.Name
	}
	trouble = "has not been ready for " + since + ": " + diagnosis.Short(ready.Message)
	return strings.TrimSuffix(trouble, ": "),
		cmp.Or(next, "Repair what its kubelet reports; see its log")
}

// silentFor returns how long a node has not answered, 0 if it does, or is marked as out of service.
func (s *session) silentFor(node *corev1.Node) time.Duration {
	ready := readiness(node)
	if ready.Status != corev1.ConditionUnknown || isOut(node) {
		return 0
	}
	return max(1, s.clock.Since(ready.LastTransitionTime.Time))
}

// ailing says what is wrong with a node by its conditions and marks, and what to do; "" if none.
func (s *session) ailing(node *corev1.Node) (trouble, next string) {
	if trouble, next = s.unready(node); trouble != "" {
		return trouble, next
	}
	if isOut(node) {
		return "is ready, but still marked as out of service", fmt.Sprintf("Run: kubectl taint node "+
			"%s %s-", node.Name, corev1.TaintNodeOutOfService)
	}
	steps := map[corev1.NodeConditionType]string{
		corev1.NodeDiskPressure:       "Free space on the disk of node %s, or let it have a larger one",
		corev1.NodeMemoryPressure:     "Limit the memory of pods on node %s, or move them",
		corev1.NodePIDPressure:        "Limit the processes of pods on node %s, or move them",
		corev1.NodeNetworkUnavailable: "Check the pods of the network plugin on node %s",
	}
	for _, c := range node.Status.Conditions {
		if step := steps[c.Type]; step != "" && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf("has had %s for %s", c.Type, s.age(c.LastTransitionTime.Time)),
				fmt.Sprintf(step, node.Name)
		}
	}
	return "", ""
}

// isOut returns whether somebody has marked a node as out of service.
func isOut(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}

// readiness returns the condition Ready of a node, an empty one if there is none.
func readiness(node *corev1.Node) corev1.NodeCondition {
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return ptr.Deref(ready, corev1.NodeCondition{})
}

// servedLinks returns whether the drivers run on the node, are registered with its kubelet, and can
// attach more volumes.
func (f *podFacts) servedLinks(ctx context.Context) []Link {
	if f.guest.hidden["Pods"] || f.guest.hidden["CSINodes"] {
		return only(NotVisible, "whether the drivers run on the node, and are registered")
	}
	if f.csiNode == nil {
		f.csiNode = &storagev1.CSINode{} // the kubelet writes it with the first driver
	}
	links := f.registrationLinks(ctx)
	if causeOf(links) == nil {
		links = f.pluginLinks(ctx)
	}
	for _, sys := range f.used {
		used := f.attachedBy(ctx, sys.of.name)[f.node]
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
