package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

func (s *session) attachmentsOf(ctx context.Context, volume string) []storagev1.VolumeAttachment {
	return slices.DeleteFunc(s.attachments(ctx), func(a storagev1.VolumeAttachment) bool {
		return ptr.Deref(a.Spec.Source.PersistentVolumeName, "") != volume
	})
}

// explainAttachment explains why a volume is not attached to a node, or still is.
func explainAttachment(
	ctx context.Context, q question, a *storagev1.VolumeAttachment,
) *Explanation {
	isLost := q.node(ctx, a.Spec.NodeName) == nil && !q.guest.hidden["Nodes"]
	unserved := q.on(ctx, a.Spec.NodeName, q.systemOf(ctx, a.Spec.Attacher)).registrationLinks(ctx)
	if a.Status.Attached && a.DeletionTimestamp == nil && !isLost {
		return &Explanation{State: q.state(a, "attached"), Chain: slices.Concat(only(OK, "the volume is "+
			"attached to node %s", a.Spec.NodeName), q.uninstalled(ctx, a.Spec.Attacher), unserved)}
	}
	return &Explanation{
		State: q.state(a, "not attached"),
		Chain: judge(q.stuck(ctx, *a), func(meaning.Rank) []Link { return unserved }),
	}
}

// attachments returns all VolumeAttachments, read once.
func (s *session) attachments(ctx context.Context) []storagev1.VolumeAttachment {
	if s.attached == nil {
		s.attached = []storagev1.VolumeAttachment{}
		visit(ctx, s.guest, &storagev1.VolumeAttachmentList{}, func(a *storagev1.VolumeAttachment) {
			a.ManagedFields = nil
			s.attached = append(s.attached, *a)
		})
	}
	return slices.Clone(s.attached)
}

// stuck says why a VolumeAttachment is not done, or not undone.
func (s *session) stuck(ctx context.Context, a storagev1.VolumeAttachment) []Link {
	if gone := s.uninstalled(ctx, a.Spec.Attacher); gone != nil {
		return gone
	}
	f := &claimFacts{session: s, claim: &corev1.PersistentVolumeClaim{}}
	f.sys = s.systemOf(ctx, a.Spec.Attacher)
	name := ptr.Deref(a.Spec.Source.PersistentVolumeName, "")
	f.volume = find(ctx, s.guest, "", name, &corev1.PersistentVolume{})
	if f.volume != nil && f.volume.Spec.ClaimRef != nil {
		f.claim.Namespace, f.claim.Name = f.volume.Spec.ClaimRef.Namespace, f.volume.Spec.ClaimRef.Name
	}
	switch {
	case f.volume == nil && name != "" && !s.guest.hidden["PersistentVolumes"]:
		return []Link{linkf(Problem, "PersistentVolume %s is gone, so the attacher cannot detach its "+
			"volume from node %s", name, a.Spec.NodeName).
			then("Yours: compare openstack server volume list %s; if the volume is not in it, kubectl "+
				`patch volumeattachment %s --type=merge -p '{"metadata":{"finalizers":null}}'`,
				cmp.Or(serverOf(&a), "ID"), a.Name)}
	case a.DeletionTimestamp != nil || a.Status.Attached:
		links := f.sys.judge([]Link{f.attachedLink(ctx, a)}, diagnosis.Attacher)
		if f.cloud.clouds == "" && f.node(ctx, a.Spec.NodeName) == nil {
			return append(links, linkf(NotVisible, "what OpenStack says about the server of the node: run "+
				"this command with --clouds clouds.yaml"))
		}
		return append(links, f.cloud.refused...)
	}
	return append(f.storedLinks(ctx, f.volume), f.attachment(ctx, a.Spec.NodeName, nil,
		a.CreationTimestamp.Time)...)
}

// lost returns what is wrong with the volume of a VolumeAttachment to a node that does not exist
// any more, or whose server has a known state and which does not answer; nil for other nodes.
func (f *claimFacts) lost(ctx context.Context, a storagev1.VolumeAttachment) *ailment {
	node := f.node(ctx, a.Spec.NodeName)
	if f.volume == nil || f.sys == nil || f.guest.hidden["Nodes"] ||
		node != nil && f.silentFor(node) == 0 {
		return nil
	}
	found, _ := f.inOpenStack(ctx, f.volume)
	if found == nil {
		found = &ailment{service: f.sys.of.title, id: f.handle(), use: useOf(f.volume)}
	}
	if node != nil {
		found.mute(&a, f.silentFor(node))
	} else if found.trouble != missing {
		found.leave(&a)
	}
	if found.trouble != missing { // then the server is one of the same project
		f.cloud.examine(ctx, []*ailment{found})
	}
	if node != nil && found.state == "" || found.link() == nil { // it may end itself soon
		return nil
	}
	return found
}

// serverOf returns the ID of the server of a VolumeAttachment, "" if it is not known.
func serverOf(a *storagev1.VolumeAttachment) string {
	return a.Annotations["csi.alpha.kubernetes.io/node-id"]
}

// attachment says why a volume is not attached to a node: what VolumeAttachments or events say.
func (f *claimFacts) attachment(
	ctx context.Context, node string, said []corev1.Event, since time.Time,
) (links []Link) {
	w := work{
		fails:   fmt.Sprintf("volume %s cannot be attached to node %s", f.handle(), node),
		reasons: []string{"FailedAttachVolume"}, knows: f.sys.knows(), runbook: runbookOperations,
		names: f.sys.names(f.handle()), since: since,
	}
	var elsewhere []storagev1.VolumeAttachment
	own := f.warnings(w, said)
	for _, a := range f.attachmentsOf(ctx, f.volume.Name) {
		switch {
		case a.Spec.NodeName != node:
			elsewhere = append(elsewhere, a)
		case a.DeletionTimestamp != nil:
			own = []Link{f.attachedLink(ctx, a)}
		case a.Status.Attached:
			return only(OK, "volume %s is attached to node %s", f.handle(), node)
		case a.Status.AttachError != nil:
			own = []Link{f.named(ctx, a, w.error("", a.Status.AttachError.Message))}
		}
	}
	for _, a := range elsewhere {
		if !f.isShared() {
			links = append(links, f.attachedLink(ctx, a))
		} else if len(own) > 0 && own[0].topic == meaning.Attached {
			links = append(links, linkf(Problem, "volume %s cannot be attached to node %s while it is "+
				"attached to node %s: its volume type has no multiattach, which %s needs", f.handle(), node,
				a.Spec.NodeName, f.volume.Spec.AccessModes[0]).
				then("Use a class whose volume type has multiattach, or run all pods on one node"))
		}
	}
	return append(f.sys.judge(append(links, own...), diagnosis.Attacher),
		linkf(Progress, "volume %s is not attached to node %s yet", f.handle(), node).
			then("%s", w.knows))
}

// isShared returns whether several nodes may attach the volume.
func (f *claimFacts) isShared() bool {
	return slices.Contains(f.volume.Spec.AccessModes, corev1.ReadWriteMany) ||
		slices.Contains(f.volume.Spec.AccessModes, corev1.ReadOnlyMany)
}

// named says more about an error that names an instance, if it is the one of another node, or one
// that the node of the VolumeAttachment has not any more.
func (f *claimFacts) named(ctx context.Context, a storagev1.VolumeAttachment, l Link) Link {
	node := f.node(ctx, a.Spec.NodeName)
	if node == nil || l.topic != meaning.Attached && l.topic != meaning.Instance {
		return l
	}
	said := a.Status.AttachError.Message
	for _, n := range list[storagev1.CSINodeList](ctx, f.guest).Items {
		for _, d := range n.Spec.Drivers {
			here := n.Name == a.Spec.NodeName
			switch {
			case d.Name != a.Spec.Attacher || !strings.Contains(said, d.NodeID):
			case here && l.topic == meaning.Instance && !strings.HasSuffix(node.Spec.ProviderID, d.NodeID):
				l.Text = fmt.Sprintf("the driver has registered node %s as instance %s, which OpenStack does "+
					"not have; the node is %s", n.Name, d.NodeID, path.Base(node.Spec.ProviderID))
				return l.then("Delete the pod of the driver on node %s, so that it registers the node again",
					n.Name)
			case !here && l.topic == meaning.Attached:
				l.Text = fmt.Sprintf("OpenStack has attached volume %s to node %s, and no VolumeAttachment "+
					"says so", f.handle(), n.Name)
				l.rank = proved
				return l.then("If no pod on node %s uses it, run: openstack server remove volume %s %s", n.Name,
					d.NodeID, f.handle())
			}
		}
	}
	return l
}

// attachedLink says why a volume is still attached to a node, and what detaches it.
func (f *claimFacts) attachedLink(ctx context.Context, a storagev1.VolumeAttachment) Link {
	name := a.Spec.NodeName
	users := slices.DeleteFunc(f.users(ctx), func(p corev1.Pod) bool {
		return p.Spec.NodeName != name
	})
	l := linkf(Problem, "volume %s is still attached to node %s", f.handle(), name)
	l.Runbook, l.Detail = runbookOperations, "VolumeAttachment "+a.Name
	gone := fmt.Sprintf("volume %s cannot be detached from node %s", f.handle(), name)
	trouble, next := f.silence(ctx, name)
	if trouble != "" {
		trouble = ", which " + trouble
	}
	node := cmp.Or(f.node(ctx, name), &corev1.Node{})
	failed, lost := a.Status.DetachError, f.lost(ctx, a)
	switch {
	case failed != nil && (a.DeletionTimestamp != nil || len(users) == 0):
		w := work{
			fails: gone + trouble, runbook: runbookOperations, names: f.sys.names(f.handle()),
			knows: "Ask the administrators of OpenStack about the volume and its instance " + serverOf(&a),
		}
		detached := w.error("", failed.Message)
		detached.Detail, detached.rank = l.Detail+": "+failed.Message, proved
		if lost != nil && lost.state != "" {
			return detached.then("%s", lost.link().Next)
		}
		return detached
	case lost != nil && (lost.state != "" || lost.trouble == missing):
		l.Text, l.Next = lost.link().Text, lost.link().Next
	case lost != nil:
		l.Text, l.Next = l.Text+trouble, lost.link().Next
	case trouble != "":
		l = l.then("%s", next)
		l.Text += trouble
	case a.DeletionTimestamp != nil: // only the attacher is left
		since := f.clock.Since(a.DeletionTimestamp.Time)
		l.Text = fmt.Sprintf("volume %s is still being detached from node %s, for %s", f.handle(), name,
			duration.HumanDuration(since))
		l = l.then("%s", f.sys.knows())
		l.rank = meaning.Consequence
		if since <= hangs {
			l.State = Progress
		}
	case len(users) > 0:
		l.Text += ", where pod " + diagnosis.List(namesOf(users)) + " uses it"
		l = l.thenFree(users, toShare(users, nil, "Run all pods on one node"))
	case slices.ContainsFunc(node.Status.VolumesInUse, func(v corev1.UniqueVolumeName) bool {
		return strings.HasSuffix(string(v), "^"+f.handle())
	}):
		l.Text += ", whose kubelet still uses it, although no pod that you may see does"
		l = l.then("See why it cannot unmount it: the log of the kubelet of node %s; drain and restart "+
			"the node if nothing else helps", name)
		if why := causeOf(f.on(ctx, name, f.sys).registrationLinks(ctx)); why != nil {
			l.Text, l.Next = l.Text+": "+why.Text, why.Next
		}
	default:
		l = l.then("No pod that you may see uses it there, so it should be detached soon; up to 6m " +
			"after the deletion of a pod")
		l.rank = meaning.Consequence // the attacher may not work
	}
	return l
}

// node returns nil if there is no such node, or it is not visible.
func (s *session) node(ctx context.Context, name string) *corev1.Node {
	return find(ctx, s.guest, "", name, &corev1.Node{})
}
