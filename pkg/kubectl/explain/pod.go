package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// PodFacts are the objects about a pod.
type PodFacts struct {
	Now    time.Time
	Pod    *corev1.Pod
	Events []corev1.Event
	// Claims are the claims that the pod uses. Missing are the names of those that do not exist.
	Claims  []ClaimFacts
	Missing []string
	// Attachments are the VolumeAttachments to the node of the pod.
	Attachments []storagev1.VolumeAttachment
	// NodePods are the pods of the drivers on the node of the pod.
	NodePods []corev1.Pod
}

// Pod returns the links from a pod to the cloud.
func Pod(f PodFacts) []Link {
	var links []Link
	for _, name := range f.Missing {
		links = append(links, Link{Problem, "pvc/" + name + " does not exist", ""})
	}
	for _, claim := range f.Claims {
		for _, l := range Claim(claim) {
			l.Text = "pvc/" + claim.Claim.Name + ": " + l.Text
			links = append(links, l)
		}
		links = append(links, f.attachmentLinks(claim)...)
	}
	if node := f.Pod.Spec.NodeName; node != "" {
		links = append(links, f.nodeLinks()...)
	}
	state, trouble := podTrouble(f.Pod)
	if trouble == "" {
		return append(links, Link{OK, "the pod is ready on node " + f.Pod.Spec.NodeName, ""})
	}
	links = append(links, eventLinks(f.Events, f.Now)...)
	return append(links, Link{state, "the pod " + trouble, ""})
}

// attachmentLinks returns whether the volume is attached to the node, if the driver attaches it.
func (f PodFacts) attachmentLinks(claim ClaimFacts) []Link {
	i := slices.IndexFunc(f.Attachments, func(a storagev1.VolumeAttachment) bool {
		name := a.Spec.Source.PersistentVolumeName
		return name != nil && claim.Volume != nil && *name == claim.Volume.Name
	})
	if i < 0 {
		return nil
	}
	status := f.Attachments[i].Status
	switch {
	case status.Attached:
		return []Link{{OK, "attached to node " + f.Pod.Spec.NodeName, ""}}
	case status.AttachError != nil:
		return []Link{problemOf("not attached to the node: " + status.AttachError.Message)}
	}
	links := []Link{{Progress, "not attached to node " + f.Pod.Spec.NodeName + " yet", ""}}
	if claim.System != nil {
		links = append(links, claim.System.links(Attacher)...)
	}
	return links
}

// nodeLinks returns a link for each pod of a driver on the node that is not ready.
func (f PodFacts) nodeLinks() []Link {
	var links []Link
	for i := range f.NodePods {
		pod := &f.NodePods[i]
		if state, trouble := podTrouble(pod); trouble != "" {
			links = append(links, Link{state, fmt.Sprintf("pod %s/%s of the driver on node %s %s",
				pod.Namespace, pod.Name, f.Pod.Spec.NodeName, trouble), ""})
		}
	}
	if len(links) == 0 && len(f.NodePods) > 0 {
		links = append(links, Link{OK, "the pods of the driver on node " + f.Pod.Spec.NodeName +
			" are ready", ""})
	}
	return links
}
