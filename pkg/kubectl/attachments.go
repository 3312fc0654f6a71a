package kubectl

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// attachmentsOf returns all VolumeAttachments of a PersistentVolume.
func attachmentsOf(
	volume *corev1.PersistentVolume, all []storagev1.VolumeAttachment,
) []storagev1.VolumeAttachment {
	return slices.DeleteFunc(slices.Clone(all), func(a storagev1.VolumeAttachment) bool {
		return ptr.Deref(a.Spec.Source.PersistentVolumeName, "") != volume.Name
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
			volume: handle,
			knows:  "Ask the administrators of OpenStack about the volume and its instance " + server,
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
	}
	return l
}

// silence says that a node does not answer, and what to do; "" if it answers or is not visible.
func (s *session) silence(ctx context.Context, name string) (trouble, next string) {
	node := s.node(ctx, name)
	if node == nil {
		if s.guest.hidden["Nodes"] {
			return "", ""
		}
		return "does not exist any more", "If its server in OpenStack is shut down or deleted, " +
			"delete the VolumeAttachments to the node and force the deletion of its pods"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			return "has not answered for " + s.age(c.LastTransitionTime.Time), fmt.Sprintf("Start "+
				"it; or if it is shut down, run: kubectl taint node %s "+
				"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or fence it with a "+
				"NetworkFence", name)
		}
	}
	return "", ""
}

// node returns nil if there is no such node, or it is not visible.
func (s *session) node(ctx context.Context, name string) *corev1.Node {
	return find(ctx, s.guest, "", name, &corev1.Node{})
}
