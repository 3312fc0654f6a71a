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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
)

// schedulingLinks says why the scheduler has chosen no node.
func (f *podFacts) schedulingLinks(ctx context.Context) []Link {
	links := f.clearedLinks(ctx)
	for _, gate := range f.pod.Spec.SchedulingGates {
		links = append(links, linkf(Problem, "gate %s of spec.schedulingGates keeps the pod from the "+
			"scheduler", gate.Name).then("See why the controller of %s does not remove it", gate.Name))
	}
	if len(links) > 0 {
		return links
	}
	nodes := list[corev1.NodeList](ctx, f.guest).Items
	only, reached, links := f.reached(ctx, nodes)
	usable := slices.DeleteFunc(slices.Clone(reached), func(n corev1.Node) bool {
		return f.barred(&n).why != ""
	})
	switch {
	case len(links) > 0:
	case len(usable) > 0:
		links = f.limitLinks(ctx, usable)
	case len(reached) > 0:
		links = []Link{f.barredLink(only, reached)}
	}
	for _, claim := range f.claims {
		links = append(links, f.exclusiveLinks(ctx, claim)...)
		if claim.waitsForPod() { // the provisioner failed for a node that was chosen earlier
			links = append(links, claim.provisionErrors(ctx)...)
		}
	}
	for _, c := range f.pod.Status.Conditions {
		switch {
		case c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse:
		case len(links) > 0 && links[0].Detail == "":
			links[0].Detail = c.Message
		case len(links) == 0:
			links = append(links, f.unfitLink(only, usable, c.Message))
		}
	}
	w := work{
		fails: "a claim cannot be created", reasons: []string{"FailedCreate"},
		since: f.pod.CreationTimestamp.Time, knows: "Ask the administrators of the cluster",
	}
	if links, _ = best(append(links, f.warnings(w, f.events)...)); len(links) == 0 {
		return []Link{linkf(Progress, "no node is chosen for the pod yet").then("Its events say more")}
	}
	return links
}

// clearedLinks says which pods of a lower priority must end, if the scheduler has chosen a node.
func (f *podFacts) clearedLinks(ctx context.Context) []Link {
	node := f.pod.Status.NominatedNodeName
	if node == "" {
		return nil
	}
	ending := slices.DeleteFunc(list[corev1.PodList](ctx, f.guest,
		client.MatchingFields{"spec.nodeName": node}).Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp == nil
	})
	l := linkf(Progress, "the scheduler makes room for the pod on node %s, where pods of a lower "+
		"priority end", node).then("Wait, or run: kubectl openstack-csi why node/%s", node)
	if len(ending) > 0 {
		l.Text += ": " + diagnosis.List(namesOf(ending))
		l = l.then("Wait, or run: kubectl openstack-csi why pod/%s -n %s", ending[0].Name,
			ending[0].Namespace)
	}
	return []Link{l}
}

// unfitLink says why the nodes that the pod may use do not fit. What the scheduler says about
// others is left out.
func (f *podFacts) unfitLink(only []string, usable []corev1.Node, said string) Link {
	w := work{
		fails: "the pod cannot be scheduled",
		knows: "Compare what the pod requests and selects with the nodes: kubectl describe nodes",
	}
	text := said
	if s := fault.Parse(said).Scheduling; s != nil && len(usable) > 0 {
		var rest []string
		for _, r := range s.Reasons {
			if !slices.ContainsFunc([]string{
				"node affinity", "taint", "were unschedulable", "[NodeAffinity]", "volumes to bind",
			}, func(of string) bool { return strings.Contains(r.Text, of) }) {
				rest = append(rest, fmt.Sprintf("%d %s", r.Nodes, r.Text))
			}
		}
		if len(rest) > 0 {
			text = fmt.Sprintf("0/%d nodes are available: %s.", s.Nodes, strings.Join(rest, ", "))
			w.fails = strings.Join(append(only, "the pod does not fit node "+
				diagnosis.List(namesOf(usable))), ", and ")
		}
	}
	l := w.error("", text)
	l.Detail = said
	if f.setting != "" {
		lacks := strings.Contains(text, "Insufficient")
		field := map[bool]string{true: "resources", false: "affinity"}[lacks]
		l.Next += ". Its setting is " + f.option(field, "")
	}
	return l
}

// exclusiveLinks returns a problem if a claim is for one pod only, and another one uses it.
func (f *podFacts) exclusiveLinks(ctx context.Context, claim *claimFacts) []Link {
	if !slices.Contains(claim.claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return nil
	}
	others := slices.DeleteFunc(claim.holders(ctx), func(p corev1.Pod) bool {
		return p.Name == f.pod.Name
	})
	if len(others) == 0 {
		return nil
	}
	ends := others[0].DeletionTimestamp != nil
	if trouble, next := f.silence(ctx, others[0].Spec.NodeName); ends && trouble != "" {
		return []Link{linkf(Problem, "pvc/%s is ReadWriteOncePod, and pod %s, which is being deleted, "+
			"uses it on node %s, which %s", claim.claim.Name, others[0].Name, others[0].Spec.NodeName,
			trouble).then("%s", next)}
	}
	return []Link{linkf(Problem, "pvc/%s is ReadWriteOncePod, and pod %s uses it", claim.claim.Name,
		diagnosis.List(namesOf(others))).thenFree(others,
		toShare(others, f.pod, "Use another access mode"))}
}

// reached returns the nodes that can use all volumes of the pod, and the volumes that others cannot
// use; or why there is no such node.
func (f *podFacts) reached(
	ctx context.Context, nodes []corev1.Node,
) (only []string, reached []corev1.Node, links []Link) {
	reached = nodes
	for _, claim := range f.claims {
		what, terms := claim.topology()
		selector, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
		if len(terms) == 0 || len(nodes) == 0 || err != nil {
			continue
		}
		misses := func(n corev1.Node) bool { return !selector.Match(&n) }
		left := slices.DeleteFunc(slices.Clone(reached), misses)
		if what += " nodes of " + zonesOf(terms); len(left) > 0 {
			only, reached = append(only, what), left
			continue
		}
		l := f.nowhere(ctx, claim, what, nodes)
		if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return !misses(n) }) {
			l = linkf(Problem, "%s, and %s, so no node can use both", strings.Join(only, ", and "), what).
				then("Copy one of the volumes into the zone of the other: a snapshot or backup into a new " +
					"claim")
		}
		links = append(links, l)
	}
	return only, reached, links
}

// zonesOf says which labels terms want.
func zonesOf(terms []corev1.NodeSelectorTerm) string {
	var wanted []string
	for _, term := range terms {
		for _, e := range term.MatchExpressions {
			zone := e.Key[strings.LastIndex(e.Key, "/")+1:]
			wanted = append(wanted, zone+" "+strings.Join(e.Values, "|"))
		}
	}
	return strings.Join(wanted, ", ")
}

// nowhere says that no node has the labels that a claim wants. The kubelet sets those of a driver.
func (f *podFacts) nowhere(
	ctx context.Context, claim *claimFacts, what string, nodes []corev1.Node,
) Link {
	_, terms := claim.topology()
	var existing []string
	for _, e := range terms[0].MatchExpressions {
		for _, n := range nodes {
			zone := n.Labels[e.Key]
			if f.barred(&n).why == "" {
				existing = append(existing, cmp.Or(zone, "none"))
			}
			if zone != "" || claim.sys == nil {
				continue
			}
			if trouble := causeOf(f.registered(ctx, n.Name, claim.sys)); trouble != nil {
				l := *trouble
				l.Text = fmt.Sprintf("%s, and node %s lacks this label: %s", what, n.Name, l.Text)
				return l
			}
		}
	}
	slices.Sort(existing)
	l := linkf(Problem, "%s, and no node is one (nodes: %s)", what,
		diagnosis.List(slices.Compact(existing))).
		then("Add such a node, or restore a snapshot or backup into a zone that has nodes")
	if claim.volume == nil {
		l = l.then("Correct allowedTopologies in a new class, or add such nodes")
	}
	return l
}

// barredLink says why the pod may use none of the nodes. That of a worker is easier to change.
func (f *podFacts) barredLink(only []string, nodes []corev1.Node) Link {
	slices.SortStableFunc(nodes, func(a, b corev1.Node) int {
		return cmp.Compare(f.barred(&a).rank, f.barred(&b).rank)
	})
	byWhy := map[string]int{}
	for i := range nodes {
		byWhy[f.barred(&nodes[i]).why]++
	}
	var texts []string
	for i := range nodes {
		why := f.barred(&nodes[i]).why
		if more := byWhy[why] - 1; more > 0 {
			texts = append(texts, fmt.Sprintf("each of %d nodes %s", more+1, why))
		} else if more == 0 {
			texts = append(texts, "node "+nodes[i].Name+" "+why)
		}
		byWhy[why] = 0
	}
	return linkf(Problem, "%s", strings.Join(append(only, texts...), ", and ")+f.others(nodes)).
		then("%s", f.barred(&nodes[0]).next)
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
		attached := f.attachedBy(ctx, sys.of.name)
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
