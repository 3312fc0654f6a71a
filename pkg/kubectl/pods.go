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

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
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
	// used are the drivers of the claims.
	used  []*system
	nodes []corev1.Node
	// csiNodes and attachments are all of them, read if a driver of OpenStack serves a claim.
	csiNodes    []storagev1.CSINode
	attachments []storagev1.VolumeAttachment
	// drivers are the pods of the drivers on the node of the pod.
	drivers []corev1.Pod
}

func explainPod(ctx context.Context, q question) *Explanation {
	f := &podFacts{session: q.session, pod: &corev1.Pod{}}
	if !q.read(ctx, f.pod) {
		return nil
	}
	f.node, f.events = f.pod.Spec.NodeName, events(ctx, q.guest, f.pod)
	for _, v := range f.pod.Spec.Volumes {
		name := claimName(f.pod, v)
		if claim := find(ctx, q.guest, q.namespace, name, &corev1.PersistentVolumeClaim{}); claim != nil {
			facts := q.factsOf(ctx, claim)
			f.claims = append(f.claims, facts)
			if facts.sys != nil && !slices.Contains(f.used, facts.sys) {
				f.used = append(f.used, facts.sys)
			}
		} else if name != "" && !q.guest.hidden["PersistentVolumeClaims"] {
			f.missing = append(f.missing, name)
		}
	}
	f.nodes = list[corev1.NodeList](ctx, q.guest).Items
	if len(f.used) > 0 {
		f.csiNodes = list[storagev1.CSINodeList](ctx, q.guest).Items
		f.attachments = list[storagev1.VolumeAttachmentList](ctx, q.guest).Items
		f.addDrivers(ctx)
	}
	return &Explanation{State: q.state(f.pod, string(f.pod.Status.Phase)), Chain: f.links(ctx)}
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

// addDrivers adds the pods of the used drivers on the node of the pod.
func (f *podFacts) addDrivers(ctx context.Context) {
	for _, d := range drivers() {
		if f.systems[d.name] == nil || f.node == "" {
			continue
		}
		for _, pod := range list[corev1.PodList](ctx, f.guest, client.InNamespace(d.namespace),
			client.MatchingFields{"spec.nodeName": f.node}).Items {
			if slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool {
				return owner.Kind == "DaemonSet" && slices.Contains(d.nodes, owner.Name)
			}) {
				f.drivers = append(f.drivers, pod)
			}
		}
	}
}

// links returns the links from a pod to the cloud: first what stops it in its phase.
func (f *podFacts) links(ctx context.Context) []Link {
	state, _, trouble := diagnosis.PodTrouble(f.pod)
	volumes := f.volumeLinks(ctx)
	switch {
	case f.pod.DeletionTimestamp != nil:
		return append(f.deletionLinks(), nearby(volumes)...)
	case trouble == "" && f.pod.Status.Phase == corev1.PodSucceeded:
		return only(OK, "the pod has ended")
	case trouble == "":
		return append(nearby(volumes), linkf(OK, "the pod is ready on node %s", f.node))
	case f.started():
		links := only(state, "the pod %s", trouble)
		for _, e := range recent(f.events, f.pod.CreationTimestamp.Time) {
			if !isMount(e.Reason) && e.Reason != "FailedScheduling" {
				l, _ := f.event(e, isStorage(e.Reason))
				links = append(links, also(l))
			}
		}
		if text := f.silent(f.node); text != "" {
			links = append([]Link{{Problem, text, ""}}, nearby(links)...)
		}
		return append(links, nearby(volumes)...)
	case f.node == "": // events say why a claim of an ephemeral volume cannot be created
		volumes = slices.Concat(f.eventLinks(), volumes, f.limitLinks(), f.zoneLinks())
	default:
		volumes = append(volumes, f.eventLinks()...)
	}
	return append(volumes, linkf(state, "the pod %s", trouble))
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

// eventLinks returns the events of a pod whose containers do not exist yet. Those about a volume of
// these drivers have the runbook.
func (f *podFacts) eventLinks() (links []Link) {
	for _, e := range recent(f.events, f.pod.CreationTimestamp.Time) {
		if e.Reason == "FailedScheduling" {
			continue // the condition of the pod says why it is not scheduled
		}
		l, _ := f.event(e, isMount(e.Reason) && slices.ContainsFunc(f.claims, func(c *claimFacts) bool {
			return c.volume != nil && strings.Contains(e.Message, `"`+c.volume.Name+`"`)
		}))
		links = append(links, l)
	}
	return links
}

// volumeLinks returns the links of all claims, and what is on the node.
func (f *podFacts) volumeLinks(ctx context.Context) []Link {
	var links []Link
	for _, name := range f.missing {
		links = append(links, linkf(Problem, "pvc/%s does not exist", name))
	}
	for _, claim := range f.claims {
		if f.node == "" && claim.waitsForPod() {
			continue // the scheduler waits for something else
		}
		for _, l := range claim.links(ctx) {
			l.Text = "pvc/" + claim.claim.Name + ": " + l.Text
			links = append(links, l)
		}
		links = append(links, f.attachmentLinks(ctx, claim)...)
	}
	if f.node != "" {
		links = append(f.registrationLinks(), links...)
		links = append(links, f.driverLinks()...)
	}
	return links
}

// attachmentLinks returns whether the volume is attached to the node, if the driver attaches it.
func (f *podFacts) attachmentLinks(ctx context.Context, claim *claimFacts) []Link {
	if f.node == "" || claim.volume == nil {
		return nil
	}
	var here, there *storagev1.VolumeAttachment
	for i, a := range f.attachments {
		switch {
		case ptr.Deref(a.Spec.Source.PersistentVolumeName, "") != claim.volume.Name:
		case a.Spec.NodeName == f.node:
			here = &f.attachments[i]
		default:
			there = &f.attachments[i]
		}
	}
	modes := claim.volume.Spec.AccessModes
	manyNodes := slices.Contains(modes, corev1.ReadWriteMany) ||
		slices.Contains(modes, corev1.ReadOnlyMany)
	switch {
	case here != nil && here.Status.Attached:
		return only(OK, "attached to node %s", f.node)
	case there != nil && !manyNodes:
		return []Link{f.elsewhere(ctx, claim, there)}
	case here == nil:
		return nil
	case here.Status.AttachError != nil:
		l, _ := errorLink("not attached to the node: " + here.Status.AttachError.Message)
		return []Link{l}
	}
	links := only(Progress, "not attached to node %s yet", f.node)
	if claim.sys != nil {
		links = append(links, claim.sys.links(diagnosis.Attacher, unknown, false)...)
	}
	return links
}

// elsewhere says on which node a volume is attached, and how to detach it.
func (f *podFacts) elsewhere(
	ctx context.Context, claim *claimFacts, at *storagev1.VolumeAttachment,
) Link {
	l := linkf(Problem, "the volume of pvc/%s is still attached to node %s (VolumeAttachment %s)",
		claim.claim.Name, at.Spec.NodeName, at.Name)
	l.Runbook = runbookOperations
	holders := slices.DeleteFunc(f.users(ctx, claim.claim), func(p corev1.Pod) bool {
		return p.Spec.NodeName == "" || p.Spec.NodeName == f.node
	})
	switch silent := f.silent(at.Spec.NodeName); {
	case silent != "":
		l.Text += ": " + silent
	case len(holders) > 0:
		l.Text += ", where pod " + diagnosis.List(namesOf(holders)) + " uses it. Delete that pod, or " +
			"run both pods on one node"
	case at.Status.DetachError != nil:
		l.Text += ", and detaching fails: " + diagnosis.Short(at.Status.DetachError.Message)
	default:
		l.Text += ". No pod that you may see uses it there, so it should be detached soon; up to 6m " +
			"after the deletion of a pod"
	}
	return l
}

// deletionLinks says what keeps a pod that is being deleted.
func (f *podFacts) deletionLinks() []Link {
	since := f.pod.DeletionTimestamp.Time // when the grace period ends
	if rest := since.Sub(f.clock.Now()); rest > 0 {
		return only(Progress, "its containers may run until their grace period ends in %s",
			duration.HumanDuration(rest))
	}
	if silent := f.silent(f.node); silent != "" {
		return []Link{{Problem, silent, ""}}
	}
	links := slices.DeleteFunc(f.driverLinks(), func(l Link) bool { return l.State == OK })
	said, _ := f.said(f.events, since)
	links = append(links, said...)
	if len(f.pod.Finalizers) > 0 {
		links = append(links, linkf(Problem, "kept by the finalizers %s",
			strings.Join(f.pod.Finalizers, ", ")))
	}
	return append(links, linkf(Problem, "the kubelet of node %s has not ended the pod. Read the end "+
		"of its log", f.node))
}
