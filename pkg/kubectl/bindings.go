package kubectl

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	volumehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// noProvisioner is the provisioner of a class whose volumes are created by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// chosenLinks explains a claim that names its PersistentVolume but is not bound to it.
func (f *claimFacts) chosenLinks(context.Context) []Link {
	name := f.claim.Spec.VolumeName
	switch {
	case f.claim.Status.Phase == corev1.ClaimLost:
		return []Link{linkf(Problem, "PersistentVolume %s is gone", name).
			then("Restore the data into a new claim; the volume may still be in OpenStack")}
	case f.volume == nil:
		return []Link{linkf(Problem, "the claim names PersistentVolume %s, which does not exist, or is "+
			"not visible to you", name).then("Create it, or a claim that does not name it")}
	}
	if why, next := f.misfit(f.volume); why != "" {
		return []Link{linkf(Problem, "PersistentVolume %s %s", name, why).then("%s", next)}
	}
	return append(f.warnings(f.provisioning(), f.events), linkf(Progress,
		"not bound to PersistentVolume %s yet, which is %s", name, f.volume.Status.Phase))
}

// staticLink explains a claim for which nothing creates a PersistentVolume, by one of those of its
// class, and by none if there are none.
func (f *claimFacts) staticLink(ctx context.Context, none Link) Link {
	l := none
	for _, v := range list[corev1.PersistentVolumeList](ctx, f.guest).Items {
		ref := ptr.Deref(v.Spec.ClaimRef, corev1.ObjectReference{})
		reserved := ref.Namespace == f.claim.Namespace && ref.Name == f.claim.Name
		if !reserved && (v.Spec.StorageClassName != ptr.Deref(f.claim.Spec.StorageClassName, "") ||
			v.Status.Phase != corev1.VolumeAvailable) {
			continue
		}
		why, next := f.misfit(&v)
		if why == "" {
			return linkf(Progress, "PersistentVolume %s fits the claim, and is not bound to it yet", v.Name).
				then("Wait, or see the log of the kube-controller-manager")
		} else if reserved || l.Text == none.Text {
			l = linkf(Problem, "PersistentVolume %s %s", v.Name, why).then("%s", next)
		}
	}
	return l
}

// misfit says why a PersistentVolume cannot be bound to the claim, and what to do; "" if it can.
func (f *claimFacts) misfit(v *corev1.PersistentVolume) (why, next string) {
	want, has := f.claim.Spec, v.Spec
	size, most := want.Resources.Requests.Storage(), has.Capacity.Storage()
	class, mode := ptr.Deref(want.StorageClassName, ""), modeOf(want.VolumeMode)
	ref := ptr.Deref(has.ClaimRef, corev1.ObjectReference{})
	same := ref.Namespace == f.claim.Namespace && ref.Name == f.claim.Name
	isOurs := ref.Name == "" || same && (ref.UID == "" || ref.UID == f.claim.UID)
	selector, err := metav1.LabelSelectorAsSelector(want.Selector)
	const again = "Create the claim again with "
	next = "Name another PersistentVolume in a new claim"
	switch {
	case v.DeletionTimestamp != nil:
		return "is being deleted", next
	case !isOurs:
		why = fmt.Sprintf("is %s and belongs to claim %s/%s", v.Status.Phase, ref.Namespace, ref.Name)
		if same {
			why = fmt.Sprintf("is %s and belongs to an earlier claim of the same name", v.Status.Phase)
		}
		switch {
		case same && v.Status.Phase != corev1.VolumeBound:
			next = "To use its data, run: " + unclaim(v.Name, "/uid")
		case v.Status.Phase == corev1.VolumeReleased:
			next = "To use its data, run: " + unclaim(v.Name, "")
		}
		return why, next
	case has.StorageClassName != class:
		return fmt.Sprintf("has the StorageClass %q, the claim %q", has.StorageClassName, class),
			again + fmt.Sprintf("storageClassName: %q", has.StorageClassName)
	case size.Cmp(*most) > 0:
		return fmt.Sprintf("has %s, the claim requests %s", most, size),
			again + most.String() + " or less"
	case modeOf(has.VolumeMode) != mode:
		return fmt.Sprintf("has the volumeMode %s, the claim %s", modeOf(has.VolumeMode), mode),
			again + "volumeMode: " + modeOf(has.VolumeMode)
	case !volumehelpers.CheckAccessModes(f.claim, v):
		return fmt.Sprintf("allows %s, the claim wants %s", modes(has.AccessModes),
			modes(want.AccessModes)), again + fmt.Sprintf("accessModes: %v", has.AccessModes)
	case want.VolumeName == "" && want.Selector != nil && err == nil &&
		!selector.Matches(labels.Set(v.Labels)):
		return "has no labels that the selector of the claim (" + selector.String() + ") requires",
			"Create the claim again without selector, or label the volume"
	}
	return "", ""
}

func modeOf(mode *corev1.PersistentVolumeMode) string {
	return string(ptr.Deref(mode, corev1.PersistentVolumeFilesystem))
}

func modes(all []corev1.PersistentVolumeAccessMode) string {
	var names []string
	for _, mode := range all {
		names = append(names, string(mode))
	}
	return diagnosis.List(names)
}

// unclaim returns the command after which a PersistentVolume accepts another claim: of the same
// name, if the part is "/uid".
func unclaim(volume, part string) string {
	return "kubectl patch pv " + volume +
		` --type=json -p '[{"op":"remove","path":"/spec/claimRef` + part + `"}]'`
}

// defaultedLink explains a claim without a StorageClass.
func (f *claimFacts) defaultedLink(ctx context.Context) Link {
	if defaults := f.defaults(ctx); len(defaults) > 0 {
		return linkf(Progress, "the claim names no StorageClass yet, and %s is the default",
			defaults[0].Name).then("Wait until kube-controller-manager sets it, or set " +
			"spec.storageClassName")
	}
	none := "no class is the default"
	if f.guest.hidden["StorageClasses"] {
		none = "you may not read whether one is the default"
	}
	next := "make one the default"
	if owner := f.ownerOfDefault(ctx); owner != nil {
		next = "the name of an existing one in " + f.guest.setting("defaultClass", owner.name) +
			": the operator resets annotations"
	}
	return f.staticLink(ctx, linkf(Problem, "the claim names no StorageClass, and %s", none).
		then("Name one in spec.storageClassName, or %s", next))
}
