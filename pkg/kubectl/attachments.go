package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// attachmentsOf returns all VolumeAttachments of a PersistentVolume.
func attachmentsOf(
	volume *corev1.PersistentVolume, all []storagev1.VolumeAttachment,
) []storagev1.VolumeAttachment {
	return slices.DeleteFunc(slices.Clone(all), func(a storagev1.VolumeAttachment) bool {
		return ptr.Deref(a.Spec.Source.PersistentVolumeName, "") != volume.Name
	})
}

// explainAttachment explains why a volume is not attached to a node, or still is.
func explainAttachment(ctx context.Context, q question) *Explanation {
	a := &storagev1.VolumeAttachment{}
	q.namespace = ""
	if !q.read(ctx, a) {
		return nil
	}
	e := &Explanation{State: q.state(a, "not attached")}
	if a.Status.Attached && a.DeletionTimestamp == nil {
		e.State = q.state(a, "attached")
		e.Chain = only(OK, "the volume is attached to node %s", a.Spec.NodeName)
		return e
	}
	e.Chain = q.stuck(ctx, *a)
	return e
}

// stuck says why a VolumeAttachment is not done, or not undone.
func (s *session) stuck(ctx context.Context, a storagev1.VolumeAttachment) []Link {
	f := &claimFacts{session: s, claim: &corev1.PersistentVolumeClaim{}}
	f.sys = s.systemOf(ctx, a.Spec.Attacher)
	f.volume = find(ctx, s.guest, "", ptr.Deref(a.Spec.Source.PersistentVolumeName, ""),
		&corev1.PersistentVolume{})
	if f.volume != nil && f.volume.Spec.ClaimRef != nil {
		f.claim.Namespace, f.claim.Name = f.volume.Spec.ClaimRef.Namespace, f.volume.Spec.ClaimRef.Name
	}
	if a.DeletionTimestamp != nil || a.Status.Attached {
		l := s.attachedLink(ctx, f.handle(), a, s.usersOn(ctx, f.claim, a))
		if l.topic == meaning.Attached && a.Status.DetachError == nil { // the attacher may not work
			l.rank = meaning.Consequence
		}
		return f.sys.judge([]Link{l}, diagnosis.Attacher)
	}
	var own []Link
	w := f.attaching(a.Spec.NodeName)
	if a.Status.AttachError != nil {
		own = append(own, w.error("", a.Status.AttachError.Message))
	}
	return append(f.sys.judge(own, diagnosis.Attacher), w.inProgress())
}

// attaching is the work of the attacher for a volume and a node.
func (f *claimFacts) attaching(node string) work {
	return work{
		fails:   fmt.Sprintf("volume %s cannot be attached to node %s", f.handle(), node),
		reasons: []string{"FailedAttachVolume"}, knows: f.sys.knows(), runbook: runbookOperations,
		names: f.sys.names(f.handle()),
	}
}

// inProgress says that the work is not done yet.
func (w work) inProgress() Link {
	return linkf(Progress, "%s yet", strings.Replace(w.fails, "cannot be", "is not", 1)).
		then("%s", w.knows)
}

// usersOn returns the pods on the node of a VolumeAttachment that use a claim.
func (s *session) usersOn(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, a storagev1.VolumeAttachment,
) []corev1.Pod {
	return slices.DeleteFunc(s.users(ctx, claim), func(p corev1.Pod) bool {
		return p.Spec.NodeName != a.Spec.NodeName
	})
}

// attachedLink says why a volume is still attached to a node, and what detaches it. Users are the
// pods on that node that use it.
func (s *session) attachedLink(
	ctx context.Context, handle string, a storagev1.VolumeAttachment, users []corev1.Pod,
) Link {
	node := a.Spec.NodeName
	l := linkf(Problem, "volume %s is still attached to node %s", handle, node)
	l.Runbook, l.Detail = runbookOperations, "VolumeAttachment "+a.Name
	trouble, next := s.silence(ctx, node)
	if trouble != "" {
		trouble = ", which " + trouble
	}
	failed := a.Status.DetachError
	switch server := a.Annotations["csi.alpha.kubernetes.io/node-id"]; {
	case failed != nil && (a.DeletionTimestamp != nil || len(users) == 0):
		w := work{
			fails: l.Text + trouble + ", and cannot be detached", runbook: runbookOperations,
			names: map[fault.Noun]string{fault.Volume: handle},
			knows: "Ask the administrators of OpenStack about the volume and its instance " + server,
		}
		detached := w.error("", failed.Message)
		detached.Detail, detached.rank = l.Detail+": "+failed.Message, proved
		return detached
	case trouble != "":
		l = l.then("%s", next)
		l.Text += trouble
	case len(users) > 0:
		l.Text += ", where pod " + diagnosis.List(namesOf(users)) + " uses it"
		l = l.thenFree(users, "Delete that pod, or run all pods on one node")
	default:
		l = l.then("No pod that you may see uses it there, so it should be detached soon; up to 6m " +
			"after the deletion of a pod")
		l.topic = meaning.Attached
	}
	return l
}

// node returns nil if there is no such node, or it is not visible.
func (s *session) node(ctx context.Context, name string) *corev1.Node {
	return find(ctx, s.guest, "", name, &corev1.Node{})
}
