package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// limitOf returns how many volumes of a driver a node can attach, 0 if there is no limit.
func limitOf(n storagev1.CSINode, driver string) int {
	for _, d := range n.Spec.Drivers {
		if d.Name == driver && d.Allocatable != nil {
			return int(ptr.Deref(d.Allocatable.Count, 0))
		}
	}
	return 0
}

// attachedBy returns how many volumes of a driver are attached to each node.
func (s *session) attachedBy(ctx context.Context, driver string) map[string]int {
	attached := map[string]int{}
	for _, a := range s.attachments(ctx) {
		if a.Spec.Attacher == driver {
			attached[a.Spec.NodeName]++
		}
	}
	return attached
}

// registrationLinks returns a problem for each driver that the kubelet of the node does not know,
// or still knows although the DaemonSet excludes the node now.
func (f *podFacts) registrationLinks(ctx context.Context) (links []Link) {
	if f.node == "" {
		return nil
	}
	for _, sys := range f.used {
		registered := f.csiNode == nil || slices.ContainsFunc(f.csiNode.Spec.Drivers,
			func(d storagev1.CSINodeDriver) bool { return d.Name == sys.of.name })
		plugin := f.nodePlugin(sys.of.nodes[0])
		switch {
		case plugin == nil && (!registered ||
			!f.guest.hidden["Pods"] && f.excluded(ctx, sys, sys.of.nodes[0]).why != ""):
			links = append(links, f.pluginless(ctx, sys, sys.of.nodes[0]))
		case registered:
		case isReady(plugin):
			links = append(links, linkf(Problem, "driver %s is not registered with the kubelet of node "+
				"%s, although its pod runs there", sys.of.name, f.node).
				then("Delete pod %s/%s; if it happens again, compare --root-dir of the kubelet with %s",
					plugin.Namespace, plugin.Name, f.guest.setting("kubeletDir", sys.of.name)))
		default:
			links = append(links, f.pluginLinks(ctx)...)
		}
	}
	return links
}

// pluginless says why no pod of a DaemonSet of a driver runs on the node.
func (f *podFacts) pluginless(ctx context.Context, sys *system, name string) Link {
	l := linkf(Problem, "driver %s does not run on node %s", sys.of.name, f.node).
		then("Run: kubectl openstack-csi why daemonset/%s", name)
	if name != sys.of.nodes[0] {
		l.Text = "DaemonSet " + name + " of the driver does not run on node " + f.node
	}
	if !f.guest.hidden["DaemonSets"] && !slices.Contains(namesOf(sys.nodes), name) {
		why := linkf(Problem, "DaemonSet %s does not exist", name).then("%s", sys.knows())
		if found := sys.findings(); len(found) > 0 {
			why = linkOf(found[0])
		}
		l.Text, l.Next, l.Runbook = l.Text+": "+strings.TrimRight(why.Text, "."), why.Next, why.Runbook
		return l
	}
	if bar := f.excluded(ctx, sys, name); bar.why != "" {
		l.Text += ", which " + bar.why
		l = l.then("%s", bar.next)
	}
	return l
}

// excluded returns why a DaemonSet of a driver starts no pod on the node. The DaemonSet tolerates
// what Kubernetes itself marks.
func (f *podFacts) excluded(ctx context.Context, sys *system, name string) bar {
	node := f.session.node(ctx, f.node)
	i := slices.Index(namesOf(sys.nodes), name)
	if node == nil || i < 0 {
		return bar{}
	}
	bare := node.DeepCopy()
	bare.Spec.Unschedulable = false
	bare.Spec.Taints = slices.DeleteFunc(bare.Spec.Taints, isCondition)
	plugin := &podFacts{session: f.session, pod: &corev1.Pod{Spec: sys.nodes[i].Spec.Template.Spec}}
	plugin.setting = f.guest.setting("pods.node.%s", sys.of.name)
	return plugin.barred(bare)
}

// addStranded adds a problem for each node where a waiting pod uses a volume of a driver that
// excludes the node. Other excluded nodes are as somebody wants them.
func (s *session) addStranded(
	ctx context.Context, volumes []corev1.PersistentVolume, report *Status,
) {
	of := map[string]*system{} // by claim
	for i, v := range volumes {
		if c := v.Spec.ClaimRef; c != nil {
			of[c.Namespace+"/"+c.Name] = s.systems[driverOf(&volumes[i])]
		}
	}
	known := map[string]bool{}
	for _, pod := range list[corev1.PodList](ctx, s.guest,
		client.MatchingFields{"status.phase": string(corev1.PodPending)}).Items {
		for _, v := range pod.Spec.Volumes {
			f := &podFacts{session: s, node: pod.Spec.NodeName}
			sys := of[pod.Namespace+"/"+claimName(&pod, v)]
			if sys == nil || known[sys.of.name+f.node] {
				continue
			}
			known[sys.of.name+f.node] = true
			if f.excluded(ctx, sys, sys.of.nodes[0]).why == "" {
				continue
			}
			for _, l := range s.on(ctx, f.node, sys).registrationLinks(ctx) {
				report.find(sys.of.title, diagnosis.Finding{
					Severity: Problem, Type: "Storage", Next: l.Next,
					Message: "pod " + pod.Namespace + "/" + pod.Name + " cannot start: " + l.Text,
				})
			}
		}
	}
}

// isCondition returns whether Kubernetes itself has set a taint.
func isCondition(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }

// remover says how an agent that sets a taint until the node is ready removes it; "" for another
// taint. Whoever removes such a taint by hand gets a node that is not.
func remover(t corev1.Taint) string {
	owner, state, _ := strings.Cut(t.Key, "/")
	switch {
	case t.Key == "node.cloudprovider.kubernetes.io/uninitialized":
		return "Install or repair the cloud controller manager of OpenStack, which removes the taint: " +
			"see the pods openstack-cloud-controller-manager and their log"
	case strings.HasSuffix(state, "not-ready") || strings.HasSuffix(state, "uninitialized"):
		return "Repair the agent of " + owner + " on the node, which removes the taint when it works: " +
			"see its pod and log"
	}
	return ""
}

// registered says what is wrong with a driver on a node.
func (s *session) registered(ctx context.Context, node string, sys *system) []Link {
	f := s.on(ctx, node, sys)
	links := f.registrationLinks(ctx)
	for i, l := range links {
		links[i].Text = strings.Replace(l.Text, " on node "+node, " there", 1)
		if l.said != "" && l.Detail != "" { // what it said is known to be the cause
			links[i].Text = "its driver ends: " + l.said
		}
	}
	for _, d := range ptr.Deref(f.csiNode, storagev1.CSINode{}).Spec.Drivers {
		plugin := f.nodePlugin(sys.of.nodes[0])
		if d.Name == sys.of.name && len(d.TopologyKeys) == 0 && plugin != nil {
			links = append(links, linkf(Problem, "driver %s is registered there without topology keys",
				d.Name).then("Delete pod %s/%s, so that it registers again; if they stay away, read "+
				"Topology in docs/cinder.md", plugin.Namespace, plugin.Name))
		}
	}
	return links
}

// pluginLinks returns a link for each pod of a driver on the node that is not ready, or missing.
func (f *podFacts) pluginLinks(ctx context.Context) (links []Link) {
	for _, pod := range f.drivers {
		if _, reason, trouble := diagnosis.PodTrouble(&pod); trouble != "" {
			l := f.troubled(ctx, &pod, "the driver does not work on node "+f.node+": ")
			if pod.Status.Phase != corev1.PodFailed {
				l = l.thenStart(reason, "pod "+pod.Namespace+"/"+pod.Name).
					meant(reason, saidBy(&pod, reason), pod.Namespace, operatorMakes)
				l = f.elsewhere(l, &pod, map[string]*corev1.Node{
					f.node: f.session.node(ctx, f.node),
				})
			}
			links = append(links, l)
		}
	}
	for _, sys := range f.used {
		for _, name := range sys.of.nodes {
			if len(f.drivers) > 0 && f.nodePlugin(name) == nil {
				links = append(links, f.pluginless(ctx, sys, name))
			}
		}
	}
	links, _ = best(links)
	for i := 1; i < len(links); i++ {
		if links[i].rank == meaning.Consequence { // of another pod on the node
			links[i] = also(links[i])
		}
	}
	if len(links) == 0 && len(f.drivers) > 0 {
		return only(OK, "the pods of the driver on node %s are ready", f.node)
	}
	return links
}

// elsewhere returns a link about pods of a driver on nodes, such as a pod. If they do not learn on
// which instances they are, nodes of another cloud are the cause.
func (s *session) elsewhere(l Link, pod *corev1.Pod, nodes map[string]*corev1.Node) Link {
	setting := s.settingOf(pod)
	if l.topic != meaning.Metadata || setting == "" {
		return l
	}
	var others []string
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		id := cmp.Or(nodes[name], &corev1.Node{}).Spec.ProviderID
		if isForeign, _ := foreignTo(id); isForeign {
			others = append(others, name+" (providerID "+id+")")
		}
	}
	if len(others) == 0 {
		return l
	}
	about, _, _ := strings.Cut(l.Text, ": ")
	l.Text, l.said = fmt.Sprintf("%s: node %s seems to be no instance of OpenStack: its metadata "+
		"service does not answer", about, diagnosis.List(others)), ""
	return l.then("Exclude it with "+setting+", or the affinity there: %s", "nodeSelector",
		version.Page("docs/kubernetes.md#nodes-that-are-not-openstack-instances"))
}

// nodePlugin returns the pod of a DaemonSet on the node; nil if there is none.
func (f *podFacts) nodePlugin(of string) *corev1.Pod {
	for i, pod := range f.drivers {
		for _, owner := range pod.OwnerReferences {
			if owner.Name == of {
				return &f.drivers[i]
			}
		}
	}
	return nil
}
