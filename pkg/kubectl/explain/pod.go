package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// PodFacts are the objects about a pod.
type PodFacts struct {
	Now    time.Time
	Pod    *corev1.Pod
	Events []corev1.Event
	// Claims are the claims that the pod uses. Missing are the names of those that do not exist.
	Claims  []ClaimFacts
	Missing []string
	// Attachments are all VolumeAttachments.
	Attachments []storagev1.VolumeAttachment
	// Nodes and CSINodes are those that the pod may use, or that its volumes are attached to.
	Nodes    []corev1.Node
	CSINodes []storagev1.CSINode
	// NodePods are the pods of the drivers on the node of the pod.
	NodePods []corev1.Pod
	// Holders are pods on other nodes by the claim that they share with the pod.
	Holders map[string][]string
}

// Pod returns the links from a pod to the cloud: first what stops it in its phase.
func Pod(f PodFacts) []Link {
	node := f.Pod.Spec.NodeName
	state, trouble := podTrouble(f.Pod)
	switch {
	case f.Pod.DeletionTimestamp != nil:
		return append(f.deletionLinks(), nearby(f.volumeLinks())...)
	case trouble == "" && f.Pod.Status.Phase == corev1.PodSucceeded:
		return []Link{{OK, "the pod has ended", ""}}
	case trouble == "":
		return append(nearby(f.volumeLinks()), Link{OK, "the pod is ready on node " + node, ""})
	case started(f.Pod):
		links := []Link{{state, "the pod " + trouble, ""}}
		for _, e := range recent(f.Events, f.Pod.CreationTimestamp.Time) {
			if !isMount(e.Reason) && e.Reason != "FailedScheduling" {
				l, _ := eventLink(e, f.Now, isStorage(e.Reason))
				links = append(links, also(l))
			}
		}
		if node := f.silent(node); node != "" {
			links = append([]Link{{Problem, node, ""}}, nearby(links)...)
		}
		return append(links, nearby(f.volumeLinks())...)
	}
	links := f.volumeLinks()
	if node == "" { // events say why a claim of an ephemeral volume cannot be created
		links = slices.Concat(f.eventLinks(), links, f.limitLinks(), f.zoneLinks())
	} else {
		links = append(links, f.eventLinks()...)
	}
	return append(links, Link{state, "the pod " + trouble, ""})
}

// started returns whether a container has run, so that all volumes are mounted.
func started(pod *corev1.Pod) bool {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := c.State.Waiting
		if waiting == nil && (c.State.Running != nil || c.State.Terminated != nil) ||
			c.LastTerminationState.Terminated != nil || waiting != nil &&
			waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
			return true
		}
	}
	return pod.Status.Phase == corev1.PodFailed
}

// eventLinks returns the events of a pod whose containers do not exist yet. Those about a volume of
// these drivers have the runbook.
func (f PodFacts) eventLinks() (links []Link) {
	for _, e := range recent(f.Events, f.Pod.CreationTimestamp.Time) {
		if e.Reason == "FailedScheduling" {
			continue // the condition of the pod says why it is not scheduled
		}
		storage := isMount(e.Reason) && slices.ContainsFunc(f.Claims, func(c ClaimFacts) bool {
			return c.Volume != nil && strings.Contains(e.Message, `"`+c.Volume.Name+`"`)
		})
		l, _ := eventLink(e, f.Now, storage)
		links = append(links, l)
	}
	return links
}

// volumeLinks returns the links of all claims, and what is on the node.
func (f PodFacts) volumeLinks() []Link {
	var links []Link
	for _, name := range f.Missing {
		links = append(links, Link{Problem, "pvc/" + name + " does not exist", ""})
	}
	for _, claim := range f.Claims {
		if f.Pod.Spec.NodeName == "" && claim.waitsForPod() {
			continue // the scheduler waits for something else
		}
		for _, l := range Claim(claim) {
			l.Text = "pvc/" + claim.Claim.Name + ": " + l.Text
			links = append(links, l)
		}
		links = append(links, f.attachmentLinks(claim)...)
	}
	if f.Pod.Spec.NodeName != "" {
		links = append(f.registrationLinks(), links...)
		links = append(links, f.nodeLinks()...)
	}
	return links
}

func (f ClaimFacts) waitsForPod() bool {
	return f.Class != nil && f.Class.VolumeBindingMode != nil &&
		f.Claim.Annotations[selectedNode] == "" &&
		*f.Class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer &&
		f.Claim.Status.Phase == corev1.ClaimPending && f.Claim.DeletionTimestamp == nil
}

// attachmentLinks returns whether the volume is attached to the node, if the driver attaches it.
func (f PodFacts) attachmentLinks(claim ClaimFacts) []Link {
	if f.Pod.Spec.NodeName == "" || claim.Volume == nil {
		return nil
	}
	var here, there *storagev1.VolumeAttachment
	for i, a := range f.Attachments {
		switch name := a.Spec.Source.PersistentVolumeName; {
		case name == nil || *name != claim.Volume.Name:
		case a.Spec.NodeName == f.Pod.Spec.NodeName:
			here = &f.Attachments[i]
		default:
			there = &f.Attachments[i]
		}
	}
	switch {
	case here != nil && here.Status.Attached:
		return []Link{{OK, "attached to node " + f.Pod.Spec.NodeName, ""}}
	case there != nil && !manyNodes(claim.Volume):
		return []Link{f.elsewhere(claim, there)}
	case here == nil:
		return nil
	case here.Status.AttachError != nil:
		l, _ := errorLink("not attached to the node: " + here.Status.AttachError.Message)
		return []Link{l}
	}
	links := []Link{{Progress, "not attached to node " + f.Pod.Spec.NodeName + " yet", ""}}
	if claim.System != nil {
		links = append(links, claim.System.links(Attacher, unknown, false)...)
	}
	return links
}

func manyNodes(volume *corev1.PersistentVolume) bool {
	return slices.Contains(volume.Spec.AccessModes, corev1.ReadWriteMany) ||
		slices.Contains(volume.Spec.AccessModes, corev1.ReadOnlyMany)
}

// elsewhere says on which node a volume is attached, and how to detach it.
func (f PodFacts) elsewhere(claim ClaimFacts, at *storagev1.VolumeAttachment) Link {
	text := fmt.Sprintf("the volume of pvc/%s is still attached to node %s (VolumeAttachment %s)",
		claim.Claim.Name, at.Spec.NodeName, at.Name)
	holders := f.Holders[claim.Claim.Name]
	switch silent := f.silent(at.Spec.NodeName); {
	case silent != "":
		text += ": " + silent
	case len(holders) > 0:
		text += ", where pod " + diagnosis.List(holders) + " uses it. Delete that pod, or run both " +
			"pods on one node"
	case at.Status.DetachError != nil:
		text += ", and detaching fails: " + diagnosis.Short(at.Status.DetachError.Message)
	default:
		text += ". No pod that you may see uses it there, so it should be detached soon; up to 6m " +
			"after the deletion of a pod"
	}
	return Link{Problem, text, runbookOperations}
}

// deletionLinks says what keeps a pod that is being deleted.
func (f PodFacts) deletionLinks() []Link {
	since := f.Pod.DeletionTimestamp.Time // when the grace period ends
	if f.Now.Before(since) {
		return []Link{{Progress, "its containers may run until their grace period ends in " +
			age(since, f.Now), ""}}
	}
	if silent := f.silent(f.Pod.Spec.NodeName); silent != "" {
		return []Link{{Problem, silent, ""}}
	}
	var links []Link
	for _, l := range f.nodeLinks() {
		if l.State != OK {
			links = append(links, l)
		}
	}
	said, _ := eventLinks(recent(f.Events, since), f.Now)
	links = append(links, said...)
	if len(f.Pod.Finalizers) > 0 {
		links = append(links, Link{Problem, "kept by the finalizers " +
			strings.Join(f.Pod.Finalizers, ", "), ""})
	}
	return append(links, Link{Problem, "the kubelet of node " + f.Pod.Spec.NodeName +
		" has not ended the pod. Read the end of its log", ""})
}
