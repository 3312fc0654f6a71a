package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// schedulingLinks says why the scheduler has chosen no node.
func (f *podFacts) schedulingLinks(ctx context.Context) []Link {
	all := list[corev1.NodeList](ctx, f.guest).Items
	usable := slices.DeleteFunc(slices.Clone(all), func(n corev1.Node) bool {
		why, _ := f.barred(&n)
		return why != ""
	})
	links := f.zoneLinks(all, usable)
	if len(usable) > 0 {
		links = append(links, f.limitLinks(ctx, usable)...)
	}
	for _, claim := range f.claims {
		links = append(links, f.exclusiveLinks(ctx, claim)...)
		if claim.waitsForPod() { // the provisioner failed for a node that was chosen earlier
			links = append(links, claim.warnings(claim.provisioning(), claim.events)...)
		}
	}
	w := work{
		fails: "the pod cannot be scheduled", since: f.pod.CreationTimestamp.Time,
		knows: "Compare what the pod requests and selects with the nodes: kubectl describe nodes",
	}
	for _, c := range f.pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			len(f.pod.Spec.SchedulingGates) == 0 {
			links = append(links, w.error("", c.Message))
		}
	}
	for _, gate := range f.pod.Spec.SchedulingGates {
		links = append(links, linkf(Problem, "gate %s of spec.schedulingGates keeps the pod from the "+
			"scheduler", gate.Name).then("See why the controller of %s does not remove it", gate.Name))
	}
	w.fails, w.reasons = "a claim cannot be created", []string{"FailedCreate"}
	w.knows = "Ask the administrators of the cluster"
	links, _ = best(append(links, f.warnings(w, f.events)...))
	return append(links, linkf(Progress, "no node is chosen for the pod yet").
		then("Its events say more"))
}

// exclusiveLinks returns a problem if a claim is for one pod only, and another one uses it.
func (f *podFacts) exclusiveLinks(ctx context.Context, claim *claimFacts) []Link {
	if !slices.Contains(claim.claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return nil
	}
	others := slices.DeleteFunc(f.holders(ctx, claim.claim), func(p corev1.Pod) bool {
		return p.Name == f.pod.Name
	})
	if len(others) == 0 {
		return nil
	}
	return []Link{linkf(Problem, "pvc/%s is ReadWriteOncePod, and pod %s uses it", claim.claim.Name,
		diagnosis.List(namesOf(others))).thenFree(others, "Delete that pod, or use another access mode")}
}

// zoneLinks returns a problem for each volume that none of the usable nodes can reach.
func (f *podFacts) zoneLinks(all, usable []corev1.Node) (links []Link) {
	for _, claim := range f.claims {
		what, terms := claim.topology()
		reached, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
		reaches := func(n corev1.Node) bool { return reached.Match(&n) }
		if len(terms) == 0 || err != nil || slices.ContainsFunc(usable, reaches) {
			continue
		}
		var wanted, existing []string
		for _, term := range terms {
			for _, e := range term.MatchExpressions {
				zone := e.Key[strings.LastIndex(e.Key, "/")+1:]
				wanted = append(wanted, zone+" "+strings.Join(e.Values, "|"))
				for _, n := range usable {
					existing = append(existing, cmp.Or(n.Labels[e.Key], "none"))
				}
			}
		}
		slices.Sort(existing)
		where := strings.Join(wanted, ", ")
		l := linkf(Problem, "%s nodes of %s, and the pod may use none of them (nodes: %s)", what,
			where, diagnosis.List(slices.Compact(existing)))
		i := slices.IndexFunc(all, reaches)
		switch {
		case i >= 0:
			why, next := f.barred(&all[i])
			l = linkf(Problem, "%s nodes of %s, and node %s %s", what, where, all[i].Name, why).
				then("%s", next)
		case len(usable) == 0:
			continue
		case claim.volume == nil:
			l = l.then("Correct allowedTopologies in a new class, or add nodes of %s", where)
		default:
			l = l.then("Add such a node, or change what the pod selects and tolerates")
		}
		links = append(links, l)
	}
	return links
}

// topology returns the nodes that can use the volume of a claim, or those that its class allows.
func (f *claimFacts) topology() (what string, terms []corev1.NodeSelectorTerm) {
	if f.volume != nil {
		affinity := ptr.Deref(f.volume.Spec.NodeAffinity, corev1.VolumeNodeAffinity{})
		return "volume " + f.handle() + " of pvc/" + f.claim.Name + " is only for",
			ptr.Deref(affinity.Required, corev1.NodeSelector{}).NodeSelectorTerms
	}
	if f.class == nil {
		return "", nil
	}
	for _, term := range f.class.AllowedTopologies {
		var to corev1.NodeSelectorTerm
		for _, e := range term.MatchLabelExpressions {
			to.MatchExpressions = append(to.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: e.Key, Operator: corev1.NodeSelectorOpIn, Values: e.Values,
			})
		}
		terms = append(terms, to)
	}
	return "StorageClass " + f.class.Name + " of pvc/" + f.claim.Name + " is only for", terms
}

// limitLinks returns a problem if none of the nodes can attach another volume.
func (f *podFacts) limitLinks(ctx context.Context, nodes []corev1.Node) []Link {
	all, usable := list[storagev1.CSINodeList](ctx, f.guest).Items, namesOf(nodes)
	for _, sys := range f.used {
		attached := map[string]int{}
		for _, a := range f.attachments {
			if a.Spec.Attacher == sys.of.name {
				attached[a.Spec.NodeName]++
			}
		}
		var full []string
		free := 0
		for _, n := range all {
			switch limit := limitOf(n, sys.of.name); {
			case !slices.Contains(usable, n.Name):
			case limit == 0 || attached[n.Name] < limit:
				free++
			default:
				full = append(full, fmt.Sprintf("%s %d of %d", n.Name, attached[n.Name], limit))
			}
		}
		if free == 0 && len(full) > 0 {
			return []Link{linkf(Problem, "all nodes that the pod may use have as many volumes of %s as "+
				"they can attach (%s)", sys.of.title, diagnosis.List(full)).
				then("Add a node, remove volumes, or raise node-volume-attach-limit")}
		}
	}
	return nil
}

// limitOf returns how many volumes of a driver a node can attach, 0 if there is no limit.
func limitOf(n storagev1.CSINode, driver string) int {
	for _, d := range n.Spec.Drivers {
		if d.Name == driver && d.Allocatable != nil {
			return int(ptr.Deref(d.Allocatable.Count, 0))
		}
	}
	return 0
}

// registrationLinks returns a problem for each driver that the kubelet of the node does not know.
func (f *podFacts) registrationLinks(ctx context.Context) (links []Link) {
	if f.csiNode == nil {
		return nil
	}
	for _, sys := range f.used {
		registered := slices.ContainsFunc(f.csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
			return d.Name == sys.of.name
		})
		plugin := f.nodePlugin(sys)
		switch {
		case registered:
		case plugin == nil:
			links = append(links, f.pluginless(ctx, sys))
		case isReady(plugin):
			links = append(links, linkf(Problem, "driver %s is not registered with the kubelet of node "+
				"%s, although its pod runs there", sys.of.name, f.node).
				then("Delete pod %s/%s; if it happens again, compare --root-dir of the kubelet with "+
					"kubeletDir in operator.yaml", plugin.Namespace, plugin.Name))
		default:
			links = append(links, f.pluginLinks(ctx)...)
		}
	}
	return links
}

// pluginless says why no pod of a driver runs on the node. Its DaemonSet tolerates what Kubernetes
// itself marks.
func (f *podFacts) pluginless(ctx context.Context, sys *system) Link {
	l := linkf(Problem, "driver %s does not run on node %s", sys.of.name, f.node).
		then("Run: kubectl openstack-csi why daemonset/%s", sys.of.nodes[0])
	node := f.session.node(ctx, f.node)
	for _, set := range sys.nodes {
		if set.Name != sys.of.nodes[0] || node == nil {
			continue
		}
		bare := node.DeepCopy()
		bare.Spec.Unschedulable = false
		bare.Spec.Taints = slices.DeleteFunc(bare.Spec.Taints, isCondition)
		plugin := &podFacts{session: f.session, pod: &corev1.Pod{Spec: set.Spec.Template.Spec}}
		if why, _ := plugin.barred(bare); why != "" {
			l.Text += ", which " + why
			l = l.then("Compare tolerations in operator.yaml with taints and labels of the node")
		}
	}
	return l
}

// isCondition returns whether Kubernetes itself has set a taint.
func isCondition(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }

// pluginLinks returns a link for each pod of a driver on the node that is not ready.
func (f *podFacts) pluginLinks(ctx context.Context) (links []Link) {
	for _, pod := range f.drivers {
		if _, _, trouble := diagnosis.PodTrouble(&pod); trouble != "" {
			l := f.troubled(ctx, &pod, "the driver does not work on node "+f.node+": ")
			if pod.Status.Phase != corev1.PodFailed {
				l = l.thenRepair(&pod)
			}
			links = append(links, l)
		}
	}
	if len(links) == 0 && len(f.drivers) > 0 {
		return only(OK, "the pods of the driver on node %s are ready", f.node)
	}
	return links
}

// nodePlugin returns the pod on the node that registers the driver; nil if there is none.
func (f *podFacts) nodePlugin(s *system) *corev1.Pod {
	for i, pod := range f.drivers {
		for _, owner := range pod.OwnerReferences {
			if owner.Name == s.of.nodes[0] {
				return &f.drivers[i]
			}
		}
	}
	return nil
}
