package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// ClusterCSIDriver is one of OpenStack that exists and is visible.
	provisioner string
	sys         *system
}

const (
	// selectedNode is an annotation of a claim that the scheduler sets when a pod uses the claim.
	selectedNode = "volume.kubernetes.io/selected-node"
	// snapshotted is a finalizer of a claim of which a snapshot is created.
	snapshotted = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
)

func explainClaim(ctx context.Context, q question) *Explanation {
	claim := &corev1.PersistentVolumeClaim{}
	if !q.read(ctx, claim) {
		return nil
	}
	links := q.factsOf(ctx, claim).links(ctx)
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

// users returns the pods that use a claim and have not ended.
func (s *session) users(ctx context.Context, claim *corev1.PersistentVolumeClaim) []corev1.Pod {
	return slices.DeleteFunc(
		list[corev1.PodList](ctx, s.guest, client.InNamespace(claim.Namespace)).Items,
		func(pod corev1.Pod) bool { return !uses(&pod, claim) })
}

// uses returns whether a pod uses a claim and has not ended.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return !hasEnded(pod) && pod.Namespace == claim.Namespace &&
		slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return claimName(pod, v) == claim.Name
		})
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (f *claimFacts) links(ctx context.Context) []Link {
	switch {
	case f.claim.DeletionTimestamp != nil:
		return f.deletionLinks(ctx)
	case f.claim.Status.Phase == corev1.ClaimBound:
		return append(f.boundLinks(), f.growthLinks()...)
	case f.claim.Status.Phase == corev1.ClaimLost:
		return only(Problem, "PersistentVolume %s is gone", f.claim.Spec.VolumeName)
	case f.claim.Spec.VolumeName != "":
		return f.chosenLinks()
	}
	class, continues := f.classLink(ctx)
	own, known := f.said(f.events, f.claim.CreationTimestamp.Time)
	if !continues {
		if class.State == Problem {
			own = nearby(own)
		}
		return append([]Link{class}, own...)
	}
	if faults := f.typeLinks(); len(faults) > 0 {
		own, known = append(faults, own...), decisive
	}
	links := append([]Link{class}, blame(own, known, f.sys, diagnosis.Provisioner)...)
	if causeOf(links) == nil {
		links = append(links, f.requestLink())
	}
	return links
}

// deletionLinks says what keeps a claim that is being deleted.
func (f *claimFacts) deletionLinks(ctx context.Context) []Link {
	users := f.users(ctx, f.claim)
	text := "kept by the finalizers " + strings.Join(f.claim.Finalizers, ", ")
	switch {
	case len(users) > 0:
		text = "pod " + diagnosis.List(namesOf(users)) + " still uses it. Delete what creates the pod"
	case slices.Contains(f.claim.Finalizers, snapshotted):
		text = "a snapshot of it is not finished. Run: kubectl get volumesnapshots"
	case slices.Equal(f.claim.Finalizers, []string{"kubernetes.io/pvc-protection"}):
		text += ", although no pod that you may see uses it. Check the kube-controller-manager"
	}
	return append([]Link{{Problem, text, ""}}, nearby(f.boundLinks())...)
}

// chosenLinks explains a claim that names its PersistentVolume but is not bound to it.
func (f *claimFacts) chosenLinks() []Link {
	name := f.claim.Spec.VolumeName
	if f.volume == nil {
		return only(Problem, "the claim names PersistentVolume %s, which does not exist, or is not "+
			"visible to you", name)
	}
	phase := f.volume.Status.Phase
	if ref := f.volume.Spec.ClaimRef; ref != nil && ref.UID != "" && ref.UID != f.claim.UID {
		of := fmt.Sprintf("claim %s/%s", ref.Namespace, ref.Name)
		if ref.Namespace == f.claim.Namespace && ref.Name == f.claim.Name {
			of = "an earlier claim of the same name"
		}
		l := linkf(Problem, "PersistentVolume %s is %s and belongs to %s", name, phase, of)
		if phase != corev1.VolumeBound {
			l.Text += ". To use its data, run: " + unclaim(name)
		}
		return []Link{l}
	}
	own, _ := f.said(f.events, f.claim.CreationTimestamp.Time)
	return append(own, linkf(Progress, "not bound to PersistentVolume %s yet, which is %s", name,
		phase))
}

// unclaim returns the command after which a PersistentVolume accepts another claim of the name.
func unclaim(volume string) string {
	return "kubectl patch pv " + volume +
		` --type=json -p '[{"op":"remove","path":"/spec/claimRef/uid"}]'`
}

// classLink returns whether the class of the claim leads to a driver that should create a volume.
func (f *claimFacts) classLink(ctx context.Context) (Link, bool) {
	var all []storagev1.StorageClass
	if f.class == nil {
		all = list[storagev1.StorageClassList](ctx, f.guest).Items
	}
	name := f.claim.Spec.StorageClassName
	switch {
	case name == nil:
		return linkf(Problem, "the claim names no StorageClass, and no class is the default. Name one "+
			"in spec.storageClassName, or make one the default"), false
	case *name == "":
		return linkf(Problem, "the claim has the StorageClass \"\", so it waits for a "+
			"PersistentVolume that an administrator creates"), false
	case f.guest.hidden["StorageClasses"] && f.class == nil:
		return linkf(NotVisible, "StorageClass %s", *name), true
	case f.class == nil:
		return linkf(Problem, "StorageClass %s does not exist%s", *name, cmp.Or(
			closest(*name, namesOf(all)), ". Check its name, or why no operator creates it: "+
				"kubectl openstack-csi status")), false
	case f.isGone(f.sys, f.provisioner):
		return Link{Problem, goneText(f.provisioner), runbookAbsent}, false
	case f.sys == nil && f.guest.hidden["ClusterCSIDrivers"]:
		return linkf(NotVisible, "the driver of StorageClass %s", *name), true
	case f.sys == nil:
		return linkf(Warning, "StorageClass %s is of driver %s, which these operators do not "+
			"maintain", *name, f.class.Provisioner), false
	case f.waitsForPod():
		return linkf(Warning, "StorageClass %s waits for the first pod that uses the claim "+
			"(WaitForFirstConsumer), and no such pod has been scheduled", *name), false
	}
	l := linkf(OK, "StorageClass %s, driver %s", *name, f.sys.of.title)
	if one := cmp.Or(f.class.Parameters["type"], f.class.Parameters["shareType"]); one != "" {
		l.Text += ", type " + one
	}
	return l, true
}

func (f *claimFacts) waitsForPod() bool {
	return f.class != nil && f.claim.Annotations[selectedNode] == "" &&
		ptr.Deref(f.class.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer &&
		f.claim.Status.Phase == corev1.ClaimPending && f.claim.DeletionTimestamp == nil
}

// goneText says that the ClusterCSIDriver of a driver does not exist, and what to do.
func goneText(name string) string {
	return "ClusterCSIDriver " + name + " is gone, so nobody maintains the driver. Apply the " +
		"manifests of its operator again; on OpenShift, cluster-storage-operator creates it"
}

// typeLinks returns a problem if the operator reports that the share type of the class is gone.
func (f *claimFacts) typeLinks() []Link {
	if f.sys == nil || f.class == nil || f.class.Parameters["type"] == "" {
		return nil
	}
	prefix := fmt.Sprintf("share type %q ", f.class.Parameters["type"])
	for _, finding := range diagnosis.Driver(f.sys.object, 0) {
		if !strings.HasSuffix(finding.Type, "ShareTypesServed") {
			continue
		}
		for fault := range strings.SplitSeq(finding.Message, "\n") {
			if strings.HasPrefix(fault, prefix) {
				return []Link{{Problem, fault, finding.Runbook}}
			}
		}
	}
	return nil
}

// requestLink says whether the driver has been asked for the volume.
func (f *claimFacts) requestLink() Link {
	if f.guest.hidden["Events"] {
		return linkf(Progress, "nothing that you may see explains it. Its events, which you may not "+
			"read, say more")
	}
	for _, e := range diagnosis.NewestFirst(f.events) {
		if e.Reason == "Provisioning" {
			return linkf(Progress, "the driver has been creating the volume for %s",
				f.age(diagnosis.TimeOf(e)))
		}
	}
	return linkf(Progress, "no request for this claim was sent to OpenStack yet")
}

func (f *claimFacts) boundLinks() []Link {
	if f.volume == nil {
		return only(NotVisible, "bound to PersistentVolume %s", f.claim.Spec.VolumeName)
	}
	text := "bound to PersistentVolume " + f.volume.Name
	if csi := source.Of(f.volume); csi != nil {
		text += ", in OpenStack " + csi.VolumeHandle
	}
	return []Link{{OK, text, ""}}
}

// growthLinks returns links if the claim requests more than the volume has.
func (f *claimFacts) growthLinks() []Link {
	want, has := f.claim.Spec.Resources.Requests.Storage(), f.claim.Status.Capacity.Storage()
	if f.sys == nil || want.Cmp(*has) <= 0 {
		return nil
	}
	var links []Link
	for _, c := range f.claim.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" {
			links = append(links, linkf(Progress, "%s: %s", c.Type, c.Message))
		}
	}
	var since time.Time // events of the provisioning are older than the volume
	if f.volume != nil {
		since = f.volume.CreationTimestamp.Time
	}
	own, known := f.said(slices.DeleteFunc(slices.Clone(f.events), func(e corev1.Event) bool {
		return e.Reason == "ProvisioningFailed" || !isStorage(e.Reason)
	}), since)
	links = append(links, blame(own, known, f.sys, diagnosis.Resizer)...)
	return append(links, linkf(Progress, "grows from %s to %s", has, want))
}
