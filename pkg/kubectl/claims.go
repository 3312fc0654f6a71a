package kubectl

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// claimFacts are the objects about a claim. An object that is nil does not exist.
type claimFacts struct {
	*session

	claim  *corev1.PersistentVolumeClaim
	class  *storagev1.StorageClass
	volume *corev1.PersistentVolume
	events []corev1.Event
	// provisioner is the CSI driver of the volume or of the class. sys is nil unless its
	// object is one of OpenStack that exists and is visible.
	provisioner string
	sys         *system
}

const (
	// selectedNode is an annotation of a claim that the scheduler sets when a pod uses the claim.
	selectedNode = "volume.kubernetes.io/selected-node"
	// snapshotted is a finalizer of a claim of which a snapshot is created.
	snapshotted = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
)

func explainClaim(
	ctx context.Context, q question, claim *corev1.PersistentVolumeClaim,
) *Explanation {
	f := q.factsOf(ctx, claim)
	links := append(walk(ctx, f.path(ctx)), f.uninstalled(ctx, driverOf(f.volume))...)
	links = append(links, f.quotaLinks(ctx, links)...)
	return &Explanation{State: q.state(claim, string(claim.Status.Phase)), Chain: links}
}

func (s *session) factsOf(ctx context.Context, claim *corev1.PersistentVolumeClaim) *claimFacts {
	f := &claimFacts{session: s, claim: claim, events: events(ctx, s.guest, claim)}
	f.class = find(ctx, s.guest, "", ptr.Deref(claim.Spec.StorageClassName, ""),
		&storagev1.StorageClass{})
	f.volume = find(ctx, s.guest, "", claim.Spec.VolumeName, &corev1.PersistentVolume{})
	f.provisioner = cmp.Or(driverOf(f.volume),
		ptr.Deref(f.class, storagev1.StorageClass{}).Provisioner)
	f.sys = s.systemOf(ctx, f.provisioner)
	return f
}

// users returns the pods that use the claim and have not ended.
func (f *claimFacts) users(ctx context.Context) []corev1.Pod {
	return slices.DeleteFunc(
		list[corev1.PodList](ctx, f.guest, client.InNamespace(f.claim.Namespace)).Items,
		func(pod corev1.Pod) bool { return !uses(&pod, f.claim) })
}

// holders returns the users that are on a node. Others do not keep a claim, or a volume.
func (f *claimFacts) holders(ctx context.Context) []corev1.Pod {
	return slices.DeleteFunc(f.users(ctx), func(p corev1.Pod) bool { return p.Spec.NodeName == "" })
}

// links returns the links of a claim that another object needs.
func (f *claimFacts) links(ctx context.Context) []Link {
	name, links := "pvc/"+f.claim.Name, walk(ctx, f.path(ctx))
	if f.claim.DeletionTimestamp == nil {
		return about(name, links)
	}
	for i, l := range links {
		if l.State == Problem {
			links[i] = l.then("Use another claim; or create it again when it is gone: kubectl "+
				"openstack-csi why %s -n %s", name, f.claim.Namespace)
		}
	}
	return about(name+" is being deleted, so no new pod gets it", links)
}

// uses returns whether a pod uses a claim and has not ended.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return !hasEnded(pod) && refersTo(pod, claim)
}

func refersTo(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return pod.Namespace == claim.Namespace &&
		slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return claimName(pod, v) == claim.Name
		})
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// path returns the way of a claim until its volume exists and has the requested size.
func (f *claimFacts) path(ctx context.Context) []step {
	if f.claim.DeletionTimestamp != nil {
		return f.deletion(ctx)
	}
	chosen, bound := f.claim.Spec.VolumeName != "", f.claim.Status.Phase == corev1.ClaimBound
	var class Link
	leads := true
	if !chosen {
		class, leads = f.classLink(ctx)
	}
	path := []step{
		{name: "class", done: leads, ok: []Link{class}, why: func(context.Context) []Link {
			own := f.warnings(f.provisioning(), f.events)
			if class.State == Problem {
				own = nearby(own, &class)
			}
			return append([]Link{class}, own...)
		}},
		{name: "copied", done: originOf(f.claim) == nil, why: f.sourceLinks},
		{name: "scheduled", done: !f.waitsForPod(), why: f.consumerLinks},
		{name: "provisioned", done: chosen, why: f.provisionLinks},
		{name: "bound", done: bound, ok: f.boundLinks(), why: f.chosenLinks},
		{name: "stored", done: f.volume == nil, why: func(ctx context.Context) []Link {
			return f.storedLinks(ctx, f.volume)
		}},
		{name: "grown", done: !f.grows(), why: f.growthLinks},
	}
	switch {
	case chosen:
		return path[4:]
	case !leads:
		return path[:1]
	case f.waitsForPod() || f.isPopulated():
		return path[:3]
	}
	return path[:4]
}

// deletion returns what must end before a claim that is being deleted is gone. A pod that has a
// node protects it, even one that has ended.
func (f *claimFacts) deletion(ctx context.Context) []step {
	users := slices.DeleteFunc(
		list[corev1.PodList](ctx, f.guest, client.InNamespace(f.claim.Namespace)).Items,
		func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" || !refersTo(&pod, f.claim) })
	const protection = "kubernetes.io/pvc-protection"
	others := slices.DeleteFunc(slices.Clone(f.claim.Finalizers), func(name string) bool {
		return name == protection && len(f.claim.Finalizers) > 1 // it goes if no pod uses the claim
	})
	kept := keptBy(others).then("Check what sets them; remove them only if it is gone")
	if slices.Equal(f.claim.Finalizers, []string{protection}) {
		kept.Text += ", although no pod that you may see uses it"
		kept.Next = "Check the kube-controller-manager"
	}
	return []step{
		{name: "unused", done: len(users) == 0, why: func(ctx context.Context) []Link {
			node := users[0].Spec.NodeName
			if trouble, next := f.silence(ctx, node); trouble != "" && users[0].DeletionTimestamp != nil {
				return []Link{linkf(Problem, "pod %s still uses it on node %s, which %s", users[0].Name, node,
					trouble).then("%s", next)}
			}
			l := linkf(Problem, "pod %s still uses it", diagnosis.List(namesOf(users)))
			if !slices.ContainsFunc(users, func(p corev1.Pod) bool { return !hasEnded(&p) }) {
				l.Text = "pod " + diagnosis.List(namesOf(users)) + " has ended, but still protects it"
			}
			return []Link{l.thenFree(users, endOf(users))}
		}},
		{
			name: "snapshotted", done: !slices.Contains(f.claim.Finalizers, snapshotted),
			why: f.snapshotLinks,
		},
		{name: "released", why: because(append([]Link{kept}, f.boundLinks()...)...)},
	}
}

// classLink returns whether the class of the claim leads to a driver that should create a volume.
func (f *claimFacts) classLink(ctx context.Context) (Link, bool) {
	name := f.claim.Spec.StorageClassName
	switch {
	case name == nil:
		return f.defaultedLink(ctx), false
	case *name == "" || f.class != nil && f.class.Provisioner == noProvisioner:
		return f.staticLink(ctx, linkf(Problem, "the claim has the StorageClass %q, so it waits for a "+
			"PersistentVolume", *name).then("Create a PersistentVolume, or a claim with another "+
			"StorageClass")), false
	case f.guest.hidden["StorageClasses"] && f.class == nil:
		return linkf(NotVisible, "StorageClass %s", *name), true
	case f.class == nil:
		l := linkf(Problem, "StorageClass %s does not exist", *name)
		l.Next, l.missing = f.otherClasses(ctx, *name), *name
		return f.staticLink(ctx, l), false
	case f.isGone(f.sys, f.provisioner):
		return f.goneLink(f.provisioner), false
	case f.sys.gone() != nil:
		return f.sys.gone()[0], false
	case f.sys == nil && f.guest.unseen():
		return linkf(NotVisible, "the driver of StorageClass %s", *name), true
	case f.sys == nil:
		if _, meant := f.meantDriver(ctx, f.class.Provisioner); meant != "" {
			return linkf(Problem, "no driver %s is registered in the cluster, but StorageClass %s names it",
				f.class.Provisioner, *name).then("Create the class again. Did you mean %s?", meant), false
		}
		return linkf(Warning, "StorageClass %s is of driver %s, which these operators do not "+
			"maintain", *name, f.class.Provisioner), false
	}
	l := linkf(OK, "StorageClass %s, driver %s", *name, f.sys.of.title)
	if one := cmp.Or(f.class.Parameters["type"], f.class.Parameters["shareType"]); one != "" {
		l.Text += ", type " + one
	}
	return l, true
}

// otherClasses says which class a claim can have whose class does not exist: one of a similar name,
// the default, or those of the drivers.
func (f *claimFacts) otherClasses(ctx context.Context, missing string) string {
	var names, ours, defaults []string
	for _, c := range list[storagev1.StorageClassList](ctx, f.guest).Items {
		names = append(names, c.Name)
		switch {
		case c.Annotations[isDefault] == "true":
			defaults = append(defaults, c.Name+" (default)")
		case f.guest.findDriver(c.Provisioner) != nil:
			ours = append(ours, c.Name)
		}
	}
	if similar := closest(missing, names); similar != "" {
		return similar
	} else if all := append(defaults, ours...); len(all) > 0 {
		return "Create the claim again with StorageClass " + diagnosis.List(all) +
			", or create this class"
	}
	return "Check its name, or why no operator creates it: kubectl openstack-csi status"
}

// waitsForPod returns whether the scheduler must choose a node first.
func (f *claimFacts) waitsForPod() bool {
	return f.class != nil && f.claim.Annotations[selectedNode] == "" &&
		ptr.Deref(f.class.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer &&
		f.claim.Status.Phase == corev1.ClaimPending && f.claim.DeletionTimestamp == nil
}

func (f *claimFacts) boundLinks() []Link {
	if f.volume == nil {
		return only(NotVisible, "bound to PersistentVolume %s", f.claim.Spec.VolumeName)
	}
	text := "bound to PersistentVolume " + f.volume.Name
	if csi := source.Of(f.volume); csi != nil {
		text += ", in OpenStack " + csi.VolumeHandle
	}
	links := []Link{linkf(OK, "%s", text)}
	class := ptr.Deref(f.claim.Spec.StorageClassName, "")
	isProvisioned := f.volume.Annotations[provisionedBy] != "" // others need no class
	if f.class == nil && class != "" && isProvisioned && !f.guest.hidden["StorageClasses"] {
		links = append(links, linkf(Warning, "StorageClass %s does not exist, and without it the claim "+
			"cannot grow", class).then("Create it again"))
	}
	return links
}

// handle returns the ID of the volume in OpenStack, "" if there is none.
func (f *claimFacts) handle() string {
	if f.volume == nil || source.Of(f.volume) == nil {
		return ""
	}
	return source.Of(f.volume).VolumeHandle
}
