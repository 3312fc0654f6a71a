package explain

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// silent says that a node does not answer, and what to do; "" if it answers or is not visible.
func (f PodFacts) silent(name string) string {
	for _, node := range f.Nodes {
		if node.Name != name {
			continue
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
				return fmt.Sprintf("node %s has not answered for %s, so its volumes stay attached. Start "+
					"it; or if it is shut down, run: kubectl taint node %s "+
					"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or fence it with a "+
					"NetworkFence", name, age(f.Now, c.LastTransitionTime.Time), name)
			}
		}
	}
	if len(f.Nodes) > 0 && !slices.ContainsFunc(f.Nodes, func(n corev1.Node) bool {
		return n.Name == name
	}) {
		return "node " + name + " does not exist any more. If its server is shut down or deleted, " +
			"delete the VolumeAttachments to the node and force the deletion of its pods"
	}
	return ""
}

// zoneLinks returns a problem for each volume that no node that the pod may use can reach.
func (f PodFacts) zoneLinks() (links []Link) {
	for _, claim := range f.Claims {
		if claim.Volume == nil || claim.Volume.Spec.NodeAffinity == nil ||
			claim.Volume.Spec.NodeAffinity.Required == nil || len(f.Nodes) == 0 {
			continue
		}
		required := claim.Volume.Spec.NodeAffinity.Required
		reached, err := nodeaffinity.NewNodeSelector(required)
		if err != nil || slices.ContainsFunc(f.Nodes, func(n corev1.Node) bool {
			return f.mayUse(n.Name) && reached.Match(&n)
		}) {
			continue
		}
		var where []string
		for _, term := range required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				where = append(where, e.Key+"="+strings.Join(e.Values, "|"))
			}
		}
		links = append(links, Link{Problem, fmt.Sprintf("the volume of pvc/%s can be used on nodes with "+
			"%s only, and the pod may use none of them. Add such a node, or change what the pod selects "+
			"and tolerates", claim.Claim.Name, strings.Join(where, ", ")), ""})
	}
	return links
}

// nodeLinks returns a link for each pod of a driver on the node that is not ready.
func (f PodFacts) nodeLinks() []Link {
	var links []Link
	for i := range f.NodePods {
		pod := &f.NodePods[i]
		if state, trouble := podTrouble(pod); trouble != "" {
			links = append(links, Link{state, fmt.Sprintf("pod %s/%s of the driver on node %s: %s",
				pod.Namespace, pod.Name, f.Pod.Spec.NodeName, trouble), ""})
		}
	}
	if len(links) == 0 && len(f.NodePods) > 0 {
		links = append(links, Link{OK, "the pods of the driver on node " + f.Pod.Spec.NodeName +
			" are ready", ""})
	}
	return links
}

// registrationLinks returns a problem for each driver that runs on the node without being
// registered with the kubelet.
func (f PodFacts) registrationLinks() (links []Link) {
	node := f.Pod.Spec.NodeName
	i := slices.IndexFunc(f.CSINodes, func(n storagev1.CSINode) bool { return n.Name == node })
	if i < 0 {
		return nil
	}
	seen := map[string]bool{}
	for _, claim := range f.Claims {
		if claim.System == nil || seen[claim.System.Driver.Name] {
			continue
		}
		name := claim.System.Driver.Name
		seen[name] = true
		registered := slices.ContainsFunc(f.CSINodes[i].Spec.Drivers,
			func(d storagev1.CSINodeDriver) bool { return d.Name == name })
		pod := f.nodePlugin(claim.System)
		switch {
		case registered:
		case pod == nil:
			links = append(links, Link{Problem, fmt.Sprintf("driver %s does not run on node %s. Check "+
				"the taints of the node and the DaemonSet of the driver", name, node), ""})
		case IsReady(pod):
			links = append(links, Link{Problem, fmt.Sprintf("driver %s is not registered with the kubelet "+
				"of node %s, although pod %s/%s runs there. Delete this pod; if it happens again, read the "+
				"log of its container node-driver-registrar and compare --root-dir of the kubelet with "+
				"kubeletDir in operator.yaml, by default /var/lib/kubelet", name, node, pod.Namespace,
				pod.Name), ""})
		}
	}
	return links
}

// nodePlugin returns the pod of a DaemonSet of the driver on the node; nil if there is none.
func (f PodFacts) nodePlugin(s *System) *corev1.Pod {
	for i, pod := range f.NodePods {
		for _, owner := range pod.OwnerReferences {
			if slices.ContainsFunc(s.Nodes, func(d appsv1.DaemonSet) bool { return d.Name == owner.Name }) {
				return &f.NodePods[i]
			}
		}
	}
	return nil
}

// limitLinks returns a problem if no node that the pod may use can attach another volume.
func (f PodFacts) limitLinks() []Link {
	for _, claim := range f.Claims {
		if claim.System == nil {
			continue
		}
		var full []string
		free := 0
		for _, n := range f.CSINodes {
			if !f.mayUse(n.Name) {
				continue
			}
			used, limit := f.attached(n, claim.System.Driver.Name)
			if limit == 0 || used < limit {
				free++
				continue
			}
			full = append(full, fmt.Sprintf("%s %d of %d", n.Name, used, limit))
		}
		if free == 0 && len(full) > 0 {
			return []Link{{Problem, fmt.Sprintf("all nodes that the pod may use have as many volumes of "+
				"%s as they can attach (%s). Add a node, remove volumes, or raise "+
				"node-volume-attach-limit", claim.System.Title, diagnosis.List(full)), ""}}
		}
	}
	return nil
}

// attached returns the number of attached volumes of a driver, and the limit; 0 if there is none.
func (f PodFacts) attached(n storagev1.CSINode, driver string) (used, limit int) {
	for _, d := range n.Spec.Drivers {
		if d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			limit = int(*d.Allocatable.Count)
		}
	}
	for _, a := range f.Attachments {
		if a.Spec.NodeName == n.Name && a.Spec.Attacher == driver {
			used++
		}
	}
	return used, limit
}

// mayUse returns whether the scheduler may choose a node: affinity, selector and taints permit it.
func (f PodFacts) mayUse(name string) bool {
	i := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 || f.Nodes[i].Spec.Unschedulable {
		return false
	}
	selected, err := nodeaffinity.GetRequiredNodeAffinity(f.Pod).Match(&f.Nodes[i])
	_, repelled := scheduling.FindMatchingUntoleratedTaint(klog.Background(), f.Nodes[i].Spec.Taints,
		f.Pod.Spec.Tolerations, func(t *corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule
		}, true)
	return err == nil && selected && !repelled
}
