package kubectl

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
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// silent says that a node does not answer, and what to do; "" if it answers or is not visible.
func (f *podFacts) silent(name string) string {
	node := f.nodeNamed(name)
	if node == nil && len(f.nodes) > 0 {
		return "node " + name + " does not exist any more. If its server is shut down or deleted, " +
			"delete the VolumeAttachments to the node and force the deletion of its pods"
	}
	for _, c := range ptr.Deref(node, corev1.Node{}).Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			return fmt.Sprintf("node %s has not answered for %s, so its volumes stay attached. Start "+
				"it; or if it is shut down, run: kubectl taint node %[1]s "+
				"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or fence it with a "+
				"NetworkFence", name, f.age(c.LastTransitionTime.Time))
		}
	}
	return ""
}

// nodeNamed returns nil if there is no such node, or it is not visible.
func (f *podFacts) nodeNamed(name string) *corev1.Node {
	i := slices.IndexFunc(f.nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &f.nodes[i]
}

// zoneLinks returns a problem for each volume that no node that the pod may use can reach.
func (f *podFacts) zoneLinks() (links []Link) {
	for _, claim := range f.claims {
		volume := ptr.Deref(claim.volume, corev1.PersistentVolume{})
		required := ptr.Deref(volume.Spec.NodeAffinity, corev1.VolumeNodeAffinity{}).Required
		if required == nil || len(f.nodes) == 0 {
			continue
		}
		reached, err := nodeaffinity.NewNodeSelector(required)
		if err != nil || slices.ContainsFunc(f.nodes, func(n corev1.Node) bool {
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
		links = append(links, linkf(Problem, "the volume of pvc/%s can be used on nodes with "+
			"%s only, and the pod may use none of them. Add such a node, or change what the pod selects "+
			"and tolerates", claim.claim.Name, strings.Join(where, ", ")))
	}
	return links
}

// driverLinks returns a link for each pod of a driver on the node that is not ready.
func (f *podFacts) driverLinks() (links []Link) {
	for i := range f.drivers {
		pod := &f.drivers[i]
		if state, _, trouble := diagnosis.PodTrouble(pod); trouble != "" {
			links = append(links, linkf(state, "pod %s/%s of the driver on node %s: %s", pod.Namespace,
				pod.Name, f.node, trouble))
		}
	}
	if len(links) == 0 && len(f.drivers) > 0 {
		return only(OK, "the pods of the driver on node %s are ready", f.node)
	}
	return links
}

// registrationLinks returns a problem for each driver that runs on the node without being
// registered with the kubelet.
func (f *podFacts) registrationLinks() (links []Link) {
	i := slices.IndexFunc(f.csiNodes, func(n storagev1.CSINode) bool { return n.Name == f.node })
	if i < 0 {
		return nil
	}
	for _, sys := range f.used {
		pod := f.nodePlugin(sys)
		switch {
		case slices.ContainsFunc(f.csiNodes[i].Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
			return d.Name == sys.of.name
		}):
		case pod == nil:
			links = append(links, linkf(Problem, "driver %s does not run on node %s. Check the taints of "+
				"the node and the DaemonSet of the driver", sys.of.name, f.node))
		case isReady(pod):
			links = append(links, linkf(Problem, "driver %s is not registered with the kubelet of node "+
				"%s, although pod %s/%s runs there. Delete this pod; if it happens again, read the log of "+
				"its container node-driver-registrar and compare --root-dir of the kubelet with "+
				"kubeletDir in operator.yaml, by default /var/lib/kubelet", sys.of.name, f.node,
				pod.Namespace, pod.Name))
		}
	}
	return links
}

// nodePlugin returns the pod of a DaemonSet of the driver on the node; nil if there is none.
func (f *podFacts) nodePlugin(s *system) *corev1.Pod {
	for i, pod := range f.drivers {
		for _, owner := range pod.OwnerReferences {
			if slices.ContainsFunc(s.nodes, func(d appsv1.DaemonSet) bool { return d.Name == owner.Name }) {
				return &f.drivers[i]
			}
		}
	}
	return nil
}

// limitLinks returns a problem if no node that the pod may use can attach another volume.
func (f *podFacts) limitLinks() []Link {
	for _, sys := range f.used {
		var full []string
		free := 0
		for _, n := range f.csiNodes {
			switch used, limit := f.attached(n, sys.of.name); {
			case !f.mayUse(n.Name):
			case limit == 0 || used < limit:
				free++
			default:
				full = append(full, fmt.Sprintf("%s %d of %d", n.Name, used, limit))
			}
		}
		if free == 0 && len(full) > 0 {
			return only(Problem, "all nodes that the pod may use have as many volumes of %s as they can "+
				"attach (%s). Add a node, remove volumes, or raise node-volume-attach-limit",
				sys.of.title, diagnosis.List(full))
		}
	}
	return nil
}

// attached returns the number of attached volumes of a driver, and the limit; 0 if there is none.
func (f *podFacts) attached(n storagev1.CSINode, driver string) (used, limit int) {
	for _, d := range n.Spec.Drivers {
		if d.Name == driver && d.Allocatable != nil {
			limit = int(ptr.Deref(d.Allocatable.Count, 0))
		}
	}
	for _, a := range f.attachments {
		if a.Spec.NodeName == n.Name && a.Spec.Attacher == driver {
			used++
		}
	}
	return used, limit
}

// mayUse returns whether the scheduler may choose a node: affinity, selector and taints permit it.
func (f *podFacts) mayUse(name string) bool {
	node := f.nodeNamed(name)
	if node == nil || node.Spec.Unschedulable {
		return false
	}
	selected, err := nodeaffinity.GetRequiredNodeAffinity(f.pod).Match(node)
	_, repelled := scheduling.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints,
		f.pod.Spec.Tolerations, func(t *corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule
		}, true)
	return err == nil && selected && !repelled
}
