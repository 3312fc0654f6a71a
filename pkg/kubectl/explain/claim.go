package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// ClaimFacts are the objects about a claim. An object that is nil does not exist.
type ClaimFacts struct {
	Claim  *corev1.PersistentVolumeClaim
	Class  *storagev1.StorageClass
	Volume *corev1.PersistentVolume
	Events []corev1.Event
	Now    time.Time
	// Classes are the names of all StorageClasses, read if the class of the claim does not exist.
	Classes []string
	// Users are the pods that use the claim, read if the claim is being deleted.
	Users []string
	// Hidden are the kinds that could not be read.
	Hidden map[string]bool
	// System is nil if another driver, or none, serves the claim, or if its ClusterCSIDriver does not
	// exist (Gone), or could not be read.
	System *System
	Gone   string
}

// selectedNode is an annotation of a claim that the scheduler sets when a pod uses the claim.
const selectedNode = "volume.kubernetes.io/selected-node"

// snapshotted is a finalizer of a claim of which a snapshot is created.
const snapshotted = "snapshot.storage.kubernetes.io/pvc-as-source-protection"

// Claim returns the links from a claim to the cloud.
func Claim(f ClaimFacts) []Link {
	switch {
	case f.Claim.DeletionTimestamp != nil:
		return f.deletionLinks()
	case f.Claim.Status.Phase == corev1.ClaimBound:
		return append(f.boundLinks(), f.growthLinks()...)
	case f.Claim.Status.Phase == corev1.ClaimLost:
		return []Link{{Problem, "PersistentVolume " + f.Claim.Spec.VolumeName + " is gone", ""}}
	case f.Claim.Spec.VolumeName != "":
		return f.chosenLinks()
	}
	class, continues := f.classLink()
	own, known := eventLinks(recent(f.Events, f.Claim.CreationTimestamp.Time), f.Now)
	if !continues {
		if class.State == Problem {
			own = nearby(own)
		}
		return append([]Link{class}, own...)
	}
	if faults := f.typeLinks(); len(faults) > 0 {
		own, known = append(faults, own...), decisive
	}
	links := append([]Link{class}, blame(own, known, f.System, Provisioner)...)
	if Cause(links) == nil {
		links = append(links, f.requestLink())
	}
	return links
}

// deletionLinks says what keeps a claim that is being deleted.
func (f ClaimFacts) deletionLinks() []Link {
	text := "kept by the finalizers " + strings.Join(f.Claim.Finalizers, ", ")
	switch {
	case len(f.Users) > 0:
		text = "pod " + diagnosis.List(f.Users) + " still uses it. Delete what creates the pod"
	case slices.Contains(f.Claim.Finalizers, snapshotted):
		text = "a snapshot of it is not finished. Run: kubectl get volumesnapshots"
	case slices.Equal(f.Claim.Finalizers, []string{"kubernetes.io/pvc-protection"}):
		text += ", although no pod that you may see uses it. Check the kube-controller-manager"
	}
	return append([]Link{{Problem, text, ""}}, nearby(f.boundLinks())...)
}

// chosenLinks explains a claim that names its PersistentVolume but is not bound to it.
func (f ClaimFacts) chosenLinks() []Link {
	name := f.Claim.Spec.VolumeName
	if f.Volume == nil {
		return []Link{{Problem, "the claim names PersistentVolume " + name + ", which does not exist, " +
			"or is not visible to you", ""}}
	}
	if ref := f.Volume.Spec.ClaimRef; ref != nil && ref.UID != "" && ref.UID != f.Claim.UID {
		of := fmt.Sprintf("claim %s/%s", ref.Namespace, ref.Name)
		if ref.Namespace == f.Claim.Namespace && ref.Name == f.Claim.Name {
			of = "an earlier claim of the same name"
		}
		text := fmt.Sprintf("PersistentVolume %s is %s and belongs to %s", name,
			f.Volume.Status.Phase, of)
		if f.Volume.Status.Phase != corev1.VolumeBound {
			text += ". To use its data, run: kubectl patch pv " + name + ` --type=json -p ` +
				`'[{"op":"remove","path":"/spec/claimRef/uid"}]'`
		}
		return []Link{{Problem, text, ""}}
	}
	own, _ := eventLinks(recent(f.Events, f.Claim.CreationTimestamp.Time), f.Now)
	return append(own, Link{Progress, fmt.Sprintf("not bound to PersistentVolume %s yet, which is %s",
		name, f.Volume.Status.Phase), ""})
}

// classLink returns whether the class of the claim leads to a driver that should create a volume.
func (f ClaimFacts) classLink() (Link, bool) {
	name := f.Claim.Spec.StorageClassName
	switch {
	case name == nil:
		return Link{
			Problem, "the claim names no StorageClass, and no class is the default. Name one in " +
				"spec.storageClassName, or make one the default", "",
		}, false
	case *name == "":
		return Link{Problem, "the claim has the StorageClass \"\", so it waits for a " +
			"PersistentVolume that an administrator creates", ""}, false
	case f.Hidden["StorageClasses"] && f.Class == nil:
		return Link{NotVisible, "StorageClass " + *name, ""}, true
	case f.Class == nil:
		return Link{Problem, "StorageClass " + *name + " does not exist" +
			cmp.Or(closest(*name, f.Classes), ". Check its name, or why no operator creates it: "+
				"kubectl openstack-csi status"), ""}, false
	case f.Gone != "":
		return Link{Problem, Gone(f.Gone), "openstackcsioperatorabsent"}, false
	case f.System == nil && f.Hidden["ClusterCSIDrivers"]:
		return Link{NotVisible, "the driver of StorageClass " + *name, ""}, true
	case f.System == nil:
		return Link{Warning, fmt.Sprintf("StorageClass %s is of driver %s, which these operators "+
			"do not maintain", *name, f.Class.Provisioner), ""}, false
	}
	if f.waitsForPod() {
		return Link{Warning, fmt.Sprintf("StorageClass %s waits for the first pod that uses the "+
			"claim (WaitForFirstConsumer), and no such pod has been scheduled", *name), ""}, false
	}
	return Link{OK, describeClass(f.Class, f.System.Title), ""}, true
}

// Gone says that the ClusterCSIDriver of a driver does not exist, and what to do.
func Gone(name string) string {
	return "ClusterCSIDriver " + name + " is gone, so nobody maintains the driver. Apply the " +
		"manifests of its operator again; on OpenShift, cluster-storage-operator creates it"
}

func describeClass(class *storagev1.StorageClass, title string) string {
	text := "StorageClass " + class.Name + ", driver " + title
	if name := cmp.Or(class.Parameters["type"], class.Parameters["shareType"]); name != "" {
		text += ", type " + name
	}
	return text
}

// typeLinks returns a problem if the operator reports that the share type of the class is gone.
func (f ClaimFacts) typeLinks() []Link {
	if f.System == nil || f.Class == nil || f.Class.Parameters["type"] == "" {
		return nil
	}
	prefix := fmt.Sprintf("share type %q ", f.Class.Parameters["type"])
	for _, finding := range diagnosis.Driver(f.System.Driver, 0) {
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
func (f ClaimFacts) requestLink() Link {
	if f.Hidden["Events"] {
		return Link{Progress, "nothing that you may see explains it. Its events, which you may not " +
			"read, say more", ""}
	}
	events := diagnosis.NewestFirst(f.Events)
	i := slices.IndexFunc(events, func(e corev1.Event) bool { return e.Reason == "Provisioning" })
	if i < 0 {
		return Link{Progress, "no request for this claim was sent to OpenStack yet", ""}
	}
	return Link{Progress, "the driver has been creating the volume for " +
		age(f.Now, diagnosis.TimeOf(events[i])), ""}
}

func (f ClaimFacts) boundLinks() []Link {
	if f.Volume == nil {
		return []Link{{
			NotVisible, "bound to PersistentVolume " + f.Claim.Spec.VolumeName, "",
		}}
	}
	text := "bound to PersistentVolume " + f.Volume.Name
	if csi := source.Of(f.Volume); csi != nil {
		text += ", in OpenStack " + csi.VolumeHandle
	}
	return []Link{{OK, text, ""}}
}

// growthLinks returns links if the claim requests more than the volume has.
func (f ClaimFacts) growthLinks() []Link {
	want, has := f.Claim.Spec.Resources.Requests.Storage(), f.Claim.Status.Capacity.Storage()
	if f.System == nil || want.Cmp(*has) <= 0 {
		return nil
	}
	links := []Link{}
	for _, c := range f.Claim.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" {
			links = append(links, Link{Progress, string(c.Type) + ": " + c.Message, ""})
		}
	}
	var since time.Time // events of the provisioning are older than the volume
	if f.Volume != nil {
		since = f.Volume.CreationTimestamp.Time
	}
	events := recent(f.Events, since)
	own, known := eventLinks(slices.DeleteFunc(events, func(e corev1.Event) bool {
		return e.Reason == "ProvisioningFailed" || !isStorage(e.Reason)
	}), f.Now)
	links = append(links, blame(own, known, f.System, Resizer)...)
	return append(links, Link{Progress, fmt.Sprintf("grows from %s to %s", has, want), ""})
}
