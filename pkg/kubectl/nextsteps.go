package kubectl

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// What to do next depends on the state of the object that it is about: nobody deletes a pod that is
// being deleted, reads the log of a container that never ran, or adds a node beside one that is
// cordoned. Each state is asked here, and only here.

// named is a Secret that an object names in one of its fields, without a name if it names none.
type named struct{ namespace, name, field string }

// secretIn returns the Secret that two entries of a class or of annotations name.
func secretIn(entries map[string]string, prefix, what string) named {
	return named{entries[prefix+"namespace"], entries[prefix+"name"], what + prefix + "name"}
}

// addSecret adds the Secret that an object names to the links that are about a Secret.
func (s *session) addSecret(links []Link, by string, of named) {
	for i, l := range links {
		isWritten := s.guest.driverIf(func(d driver) bool { // by an operator
			return of == named{d.namespace, d.loginSecret, of.field}
		}) != nil
		switch {
		case l.rank == meaning.LoginRefused && of.name != "" && !isWritten:
			l = l.then("Correct the login in Secret %s/%s, which %s names", of.namespace, of.name, by)
		case l.topic != meaning.Secret:
		case of.name == "":
			l = l.then("%s names no Secret: set %s", by, of.field)
		case l.missing != "":
			l = l.then("Create it, or correct %s of %s", of.field, by)
		default:
			l = l.then("Check that Secret %s/%s, which %s names, exists and is complete", of.namespace,
				of.name, by)
		}
		links[i] = l
	}
}

// thenFree returns a link with what ends the use of a volume by pods: otherwise, unless all of them
// are being deleted already.
func (l Link) thenFree(pods []corev1.Pod, otherwise string) Link {
	if len(pods) == 0 || slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return p.DeletionTimestamp == nil
	}) {
		return l.then("%s", otherwise)
	}
	return l.then("It is being deleted. Run: kubectl openstack-csi why pod/%s -n %s", pods[0].Name,
		pods[0].Namespace)
}

// endOf says how pods that nobody has deleted end: what has created them makes others.
func endOf(pods []corev1.Pod) string {
	return "Delete " + diagnosis.List(creatorsOf(pods)) + ", or end the use of the claim there"
}

// creatorsOf returns what has created pods, such as "Deployment web" or "pod web".
func creatorsOf(pods []corev1.Pod) (creators []string) {
	for i := range pods {
		creator := "pod " + pods[i].Name
		if by := metav1.GetControllerOf(&pods[i]); by != nil {
			name, replaced := strings.CutSuffix(by.Name, "-"+pods[i].Labels["pod-template-hash"])
			creator = map[bool]string{true: deployment, false: by.Kind}[replaced] + " " + name
		}
		if !slices.Contains(creators, creator) {
			creators = append(creators, creator)
		}
	}
	return creators
}

const deployment = "Deployment"

// toShare says how a pod gets a volume that others use: those of a Deployment come again.
func toShare(others []corev1.Pod, asking *corev1.Pod, otherwise string) string {
	creators := creatorsOf(others)
	if len(creators) != 1 || !strings.HasPrefix(creators[0], deployment+" ") {
		return otherwise + ", or delete that pod"
	}
	if asking != nil && slices.Equal(creators, creatorsOf([]corev1.Pod{*asking})) {
		return "Set strategy.type of " + creators[0] + ", which has made both pods, to Recreate"
	}
	return otherwise + "; set strategy.type of " + creators[0] + " to Recreate if both pods are of it"
}

// operatorMakes says that an operator writes the template of pods: it would undo each correction.
const operatorMakes = "operator"

// meant returns a link whose text ends in what a container or the API server said, with what that
// means and what to do about it, if anybody knows. Whole is what it said before it was shortened.
// Maker is who writes the template of the pods: operatorMakes, or somebody else.
func (l Link) meant(reason, whole, namespace, maker string) Link {
	if reason == diagnosis.ReasonUnscheduled {
		return l
	}
	parsed := fault.Parse(cmp.Or(whole, l.said))
	if parsed.Names == nil {
		parsed.Names = map[fault.Noun]string{}
	}
	parsed.Names["maker"], parsed.Names["within"] = maker, namespace
	if reason != diagnosis.ReasonImage {
		reason = ""
	}
	m := meaning.OfEvent(reason, parsed)
	known := l.said != "" && m.Rank != meaning.Unknown && m.Stops != "" && m.Next != "" &&
		(parsed.Leaf != fault.Deadline || m.Rank == meaning.Consequence) // it may be any deadline
	if !known {
		return l
	}
	l.Detail, l.Text = l.said, strings.TrimSuffix(l.Text, l.said)+m.Stops
	l.said, l.topic, l.rank = m.Stops, m.Topic, m.Rank
	switch {
	case reason == diagnosis.ReasonImage && m.Topic != meaning.Secret: // it is of the installation
	case parsed.Leaf == fault.NotFound && maker == "":
		l.Next = "Create it in namespace " + namespace + ", or correct its name"
	default:
		l.Next = m.Next
	}
	return l
}

// unhealthy returns a link about a container that did not say why it does not run, with what the
// kubelet said about its probes.
func (s *session) unhealthy(l Link, reason string, all []corev1.Event) Link {
	about, _, _ := strings.Cut(l.Text, ": ")
	silent := reason == diagnosis.ReasonNotReady || reason == diagnosis.ReasonCrash &&
		strings.Contains(l.Text, diagnosis.NoMessage)
	w := work{fails: strings.TrimSuffix(l.Text, ": "+l.said), reasons: []string{"Unhealthy"}}
	if l.said == "" {
		w.fails = about
	}
	if said := s.warnings(w, all); silent && len(said) > 0 && said[0].State == Problem {
		return said[0]
	}
	return l
}

// saidBy returns all that the first container said whose trouble has a reason.
func saidBy(pod *corev1.Pod, reason string) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		ended, waiting := diagnosis.Ended(c), c.State.Waiting
		switch {
		case ended != nil && reason == diagnosis.ReasonCrash:
			return ended.Message
		case waiting != nil && reason == diagnosis.ReasonImage:
			_, after, _ := strings.Cut(waiting.Message, "ErrImagePull: ")
			return cmp.Or(after, waiting.Message)
		}
	}
	return ""
}

// thenStart returns a link with what lets pods of a workload run. Reason is one of
// diagnosis.PodReasons or, in progress, of a container; pods says where they are.
func (l Link) thenStart(reason, pods string) Link {
	switch reason {
	case diagnosis.ReasonImage:
		return l.then("See the events of %s; check the name of the image, its pull secret, and whether "+
			"the node reaches the registry", pods)
	case diagnosis.ReasonContainer, diagnosis.ReasonFailedCreate:
		return l.then("Create or correct what the message names: see the events of %s", pods)
	case diagnosis.ReasonUnscheduled:
		return l.then("Compare what %s requests and tolerates with the nodes: kubectl describe nodes",
			pods)
	case diagnosis.ReasonCrash, diagnosis.ReasonFailed, diagnosis.ReasonNotReady:
		return l.then("Read the log and the events of %s", pods)
	}
	return l.then("Wait, or see the events of %s", pods)
}

// bar is why the scheduler does not choose a node, and what changes that. A higher rank is harder.
type bar struct {
	why, next string
	rank      int
}

// barred returns the zero value if the scheduler may choose a node for the pod.
func (f *podFacts) barred(n *corev1.Node) bar {
	taint, repelled := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints,
		f.pod.Spec.Tolerations, func(t *corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule
		}, true)
	selected, err := nodeaffinity.GetRequiredNodeAffinity(f.pod).Match(n)
	switch {
	case n.Spec.Unschedulable:
		return bar{"is cordoned", "Run: kubectl uncordon " + n.Name, 0}
	case err != nil || !selected:
		field := "nodeSelector"
		if labels.SelectorFromSet(f.pod.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
			field = "affinity"
		}
		return bar{
			"is not one that the pod selects (" + selectionOf(f.pod) + ")",
			"Change " + f.option(field, "what the pod selects") + ", or label a node so", 2,
		}
	case repelled && isCondition(taint):
		why, next := f.ailing(n)
		return bar{
			cmp.Or(why, "is "+strings.ReplaceAll(path.Base(taint.Key), "-", " ")),
			cmp.Or(next, "Repair it: kubectl openstack-csi why node/"+n.Name), 0,
		}
	case repelled && strings.HasPrefix(taint.Key, "node-role.kubernetes.io/"):
		return bar{
			"has the taint " + taint.Key,
			"Add or repair a worker, or set " + f.option("tolerations", "tolerations of the pod"), 3,
		}
	case repelled && remover(taint) != "":
		return bar{"has the taint " + taint.Key, remover(taint), 1}
	case repelled:
		return bar{
			"has the taint " + strings.TrimSuffix(taint.ToString(), ":"),
			"Tolerate the taint in " + f.option("tolerations", "the pod") +
				", or remove it from the node", 1,
		}
	}
	return bar{}
}

// settingOf returns where an option %s of a pod of a driver is set, "" for other pods.
func (s *session) settingOf(pod *corev1.Pod) string {
	isOf := func(workload string) bool { return strings.HasPrefix(pod.Name, workload+"-") }
	for _, d := range s.guest.drivers() {
		switch {
		case pod.Namespace != d.namespace:
		case isOf(d.controller):
			return s.guest.setting("pods.controller.%s", d.name)
		case slices.ContainsFunc(d.nodes, isOf):
			return s.guest.setting("pods.node.%s", d.name)
		}
	}
	return ""
}

// option returns the field of an option of a pod of a driver, or the words for other pods.
func (f *podFacts) option(field, otherwise string) string {
	if f.setting == "" {
		return otherwise
	}
	return fmt.Sprintf(f.setting, field)
}

// others says which other values nodes have of the labels that the pod selects.
func (f *podFacts) others(nodes []corev1.Node) string {
	var values []string
	for i := range nodes {
		for key, value := range f.pod.Spec.NodeSelector {
			if has, found := nodes[i].Labels[key]; found && has != value {
				values = append(values, fmt.Sprintf("%s=%q", key, has))
			}
		}
	}
	if slices.Sort(values); len(values) == 0 {
		return ""
	}
	return ", but nodes have " + diagnosis.List(slices.Compact(values))
}

// selectionOf says which labels of nodes a pod requires.
func selectionOf(pod *corev1.Pod) string {
	wanted := []string{labels.FormatLabels(pod.Spec.NodeSelector)}
	if len(pod.Spec.NodeSelector) == 0 {
		wanted = nil
	}
	affinity := ptr.Deref(ptr.Deref(pod.Spec.Affinity, corev1.Affinity{}).NodeAffinity,
		corev1.NodeAffinity{}).RequiredDuringSchedulingIgnoredDuringExecution
	for _, term := range ptr.Deref(affinity, corev1.NodeSelector{}).NodeSelectorTerms {
		for _, e := range append(term.MatchFields, term.MatchExpressions...) {
			wanted = append(wanted, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator,
				strings.Join(e.Values, "|"))))
		}
	}
	return strings.Join(wanted, ", ")
}
