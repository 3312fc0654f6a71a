package kubectl

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// podFacts are the objects about a pod.
type podFacts struct {
	*session

	pod    *corev1.Pod
	node   string
	events []corev1.Event
	// claims are the claims that the pod uses. missing are the names of those that do not exist.
	claims  []*claimFacts
	missing []string
	used    []*system
	// csiNode is that of the node, read if a driver of OpenStack serves a claim.
	csiNode *storagev1.CSINode
	// drivers are the pods of the drivers on the node of the pod.
	drivers []corev1.Pod
	// setting is where an option %s of a pod of a driver is set, "" for other pods.
	setting string
}

func explainPod(ctx context.Context, q question, pod *corev1.Pod) *Explanation {
	q.guest.addPull(ctx, pod)
	links := walk(ctx, q.podFacts(ctx, pod).path(ctx))
	return &Explanation{State: q.state(pod, string(pod.Status.Phase)), Chain: links}
}

// podLinks returns the links of a pod of a workload with its name. They say what its status means.
func (s *session) podLinks(ctx context.Context, pod *corev1.Pod) []Link {
	links := about("pod "+pod.Name, walk(ctx, s.podFacts(ctx, pod).path(ctx)))
	if _, _, trouble := diagnosis.PodTrouble(pod); causeOf(links) != nil {
		causeOf(links).cause = diagnosis.SaidIn(trouble)
	}
	return links
}

func (s *session) podFacts(ctx context.Context, pod *corev1.Pod) *podFacts {
	f := &podFacts{session: s, pod: pod, node: pod.Spec.NodeName, events: events(ctx, s.guest, pod)}
	f.setting = s.settingOf(pod)
	for _, v := range pod.Spec.Volumes {
		name := claimName(pod, v)
		claim := find(ctx, s.guest, pod.Namespace, name, &corev1.PersistentVolumeClaim{})
		if claim == nil {
			if name != "" && !s.guest.hidden["PersistentVolumeClaims"] {
				f.missing = append(f.missing, name)
			}
			continue
		}
		facts := s.factsOf(ctx, claim)
		f.claims = append(f.claims, facts)
		if facts.sys != nil && !slices.Contains(f.used, facts.sys) {
			f.used = append(f.used, facts.sys)
		}
	}
	if len(f.used) > 0 {
		f.addDrivers(ctx)
	}
	return f
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

// on returns what is known about a driver on a node.
func (s *session) on(ctx context.Context, node string, sys *system) *podFacts {
	f := &podFacts{session: s, node: node}
	if sys != nil {
		f.used = []*system{sys}
		f.addDrivers(ctx)
	}
	return f
}

// addDrivers adds the pods of the used drivers on the node of the pod.
func (f *podFacts) addDrivers(ctx context.Context) {
	f.csiNode = find(ctx, f.guest, "", f.node, &storagev1.CSINode{})
	for _, d := range f.guest.drivers() {
		if f.systems[d.name] == nil || f.node == "" {
			continue
		}
		for _, pod := range list[corev1.PodList](ctx, f.guest, client.InNamespace(d.namespace),
			client.MatchingFields{"spec.nodeName": f.node}).Items {
			if slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool {
				return owner.Kind == "DaemonSet" && slices.Contains(d.nodes, owner.Name)
			}) {
				f.guest.addPull(ctx, &pod)
				f.drivers = append(f.drivers, pod)
			}
		}
	}
}

// started returns whether a container has run, so that all volumes are mounted.
func (f *podFacts) started() bool {
	for _, c := range slices.Concat(f.pod.Status.InitContainerStatuses,
		f.pod.Status.ContainerStatuses) {
		waiting := c.State.Waiting
		if waiting == nil && (c.State.Running != nil || c.State.Terminated != nil) ||
			c.LastTerminationState.Terminated != nil || waiting != nil &&
			waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
			return true
		}
	}
	return f.pod.Status.Phase == corev1.PodFailed
}

// path returns the way of a pod until it is ready.
func (f *podFacts) path(ctx context.Context) []step {
	_, _, trouble := diagnosis.PodTrouble(f.pod)
	runs := trouble == "" || f.started()
	switch {
	case f.pod.DeletionTimestamp != nil:
		return f.deletion()
	case f.pod.Status.Phase == corev1.PodSucceeded:
		return []step{{done: true, ok: only(OK, "the pod has ended")}}
	}
	path := []step{
		{name: "claimed", done: runs || len(f.missing) == 0, why: f.missingLinks},
		{name: "provisioned", done: runs, why: f.claimLinks},
		{name: "scheduled", done: f.node != "", why: f.schedulingLinks},
		{name: "reached", done: runs, why: f.silent},
		{name: "registered", done: runs, why: f.registrationLinks},
		{name: "attached", done: runs, why: f.attachmentLinks},
		{name: "mounted", done: runs, why: f.mountLinks},
		{
			name: "ready", done: trouble == "", ok: only(OK, "the pod is ready on node %s", f.node),
			why: func(ctx context.Context) []Link {
				return slices.Concat(f.silent(ctx), f.unmountable(ctx), []Link{f.stopped(ctx)},
					f.otherEvents())
			},
		},
	}
	if f.node == "" {
		return path[:3]
	} else if runs { // what is wrong with its claims did not stop it
		for _, l := range append(f.claimLinks(ctx), f.registrationLinks(ctx)...) {
			path[7].ok = append(path[7].ok, also(l))
		}
	}
	return path
}

// deletion returns what must end before a pod that is being deleted is gone.
func (f *podFacts) deletion() []step {
	since := f.pod.DeletionTimestamp.Time // when the grace period ends
	if rest := since.Sub(f.clock.Now()); rest > 0 {
		return []step{{name: "ended", why: because(linkf(Progress, "its containers may run until their "+
			"grace period ends in %s", duration.HumanDuration(rest)).then("Wait, or read their logs"))}}
	}
	return []step{
		{name: "reached", why: f.silent},
		{name: "registered", why: f.registrationLinks},
		{name: "unmounted", why: func(ctx context.Context) []Link {
			w := f.onNode("the kubelet of node " + f.node + " cannot end the pod")
			w.since, w.reasons = since, []string{"FailedKillPod", "FailedPreStopHook", "ExceededGracePeriod"}
			return judge(f.warnings(w, f.events), func(meaning.Rank) []Link { return f.pluginLinks(ctx) })
		}},
		{name: "ended", done: ptr.Deref(f.pod.DeletionGracePeriodSeconds, 0) == 0, why: f.endless},
		{name: "released", why: because(keptBy(f.pod.Finalizers))},
	}
}

// endless says what is left of a pod whose grace period is over. When nothing is left, the kubelet
// sets the period to 0.
func (f *podFacts) endless(context.Context) []Link {
	for _, c := range f.pod.Status.ContainerStatuses {
		if c.State.Running != nil {
			return []Link{linkf(Problem, "container %s has not ended on node %s", c.Name, f.node).
				then("See dmesg of the node: a process may hang because a volume does not answer; then the " +
					"log of the kubelet")}
		}
	}
	return []Link{linkf(Problem, "its containers have ended, and the kubelet of node %s has not "+
		"unmounted its volumes", f.node).then("See the end of its log; %s", f.onNode("").knows)}
}

// silent returns a problem if the node of the pod does not answer, or is not ready.
func (f *podFacts) silent(ctx context.Context) []Link {
	trouble, next := f.silence(ctx, f.node)
	if trouble == "" {
		return nil
	}
	if strings.Contains(next, corev1.TaintNodeOutOfService) &&
		slices.ContainsFunc(f.used, func(s *system) bool { return s.of.kind == choice.Manila }) {
		next += ", or fence it with a NetworkFence" // of its access to shares
	}
	return []Link{linkf(Problem, "node %s %s", f.node, trouble).then("%s", next)}
}

// onNode is the work of the kubelet, and of the drivers on its node.
func (f *podFacts) onNode(fails string) work {
	w := work{
		fails: fails, since: f.pod.CreationTimestamp.Time,
		knows: "The log of the kubelet of node " + f.node + " says more",
	}
	for _, pod := range f.drivers {
		w.knows = "The log of pod " + pod.Namespace + "/" + pod.Name + " says more"
	}
	return w
}

// missingLinks returns the claims that do not exist. The controller of ephemeral volumes says why.
func (f *podFacts) missingLinks(context.Context) []Link {
	w := f.onNode("its claims cannot be created")
	w.reasons = []string{"FailedBinding", "FailedCreate"}
	w.knows = "Ask the administrators of the cluster"
	links := f.warnings(w, f.events)
	for _, name := range f.missing {
		l := linkf(Problem, "pvc/%s does not exist", name).then("Create it, or what creates it")
		if slices.ContainsFunc(f.pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Ephemeral != nil && claimName(f.pod, v) == name
		}) { // a claim that somebody else creates has another owner, so the pod could not use it
			l = l.then("Do not create it: kube-controller-manager does so; read its log")
		}
		links = append(links, l)
	}
	return links
}

func (f *podFacts) claimLinks(ctx context.Context) (links []Link) {
	for _, claim := range f.claims {
		if f.node == "" && claim.waitsForPod() {
			continue // the scheduler waits for something else
		}
		links = append(links, claim.links(ctx)...)
	}
	return links
}
