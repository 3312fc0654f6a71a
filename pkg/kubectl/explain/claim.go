package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// ClaimFacts are the objects about a claim. An object that is nil does not exist.
type ClaimFacts struct {
	Claim  *corev1.PersistentVolumeClaim
	Class  *storagev1.StorageClass
	Volume *corev1.PersistentVolume
	Events []corev1.Event
	Now    time.Time
	// ClassHidden and EventsHidden say that StorageClasses and events could not be read.
	ClassHidden, EventsHidden bool
	// System is nil if another driver, or none, serves the claim.
	System *System
}

// selectedNode is an annotation of a claim that the scheduler sets when a pod uses the claim.
const selectedNode = "volume.kubernetes.io/selected-node"

// Claim returns the links from a claim to the cloud.
func Claim(f ClaimFacts) []Link {
	if f.Claim.Status.Phase == corev1.ClaimBound {
		return append(f.boundLinks(), f.growthLinks()...)
	}
	if f.Claim.Status.Phase == corev1.ClaimLost {
		return []Link{{Problem, "PersistentVolume " + f.Claim.Spec.VolumeName + " is gone", ""}}
	}
	class, continues := f.classLink()
	links := []Link{class}
	if !continues {
		return links
	}
	links = append(links, f.typeLinks()...)
	links = append(links, f.System.links(Provisioner)...)
	events := eventLinks(f.Events, f.Now)
	if len(events) > 0 {
		return append(links, events...)
	}
	return append(links, f.requestLink())
}

// classLink returns whether the class of the claim leads to a driver that should create a volume.
func (f ClaimFacts) classLink() (Link, bool) {
	name := f.Claim.Spec.StorageClassName
	switch {
	case name == nil:
		return Link{
			Problem, "the claim names no StorageClass, and no class is the default", "",
		}, false
	case *name == "":
		return Link{Problem, "the claim has the StorageClass \"\", so it waits for a " +
			"PersistentVolume that an administrator creates", ""}, false
	case f.ClassHidden:
		return Link{NotVisible, "StorageClass " + *name, ""}, false
	case f.Class == nil:
		return Link{Problem, fmt.Sprintf("StorageClass %s does not exist: check its name. "+
			"If an operator should create it, OpenStack does not list its type", *name), ""}, false
	case f.System == nil:
		return Link{Warning, fmt.Sprintf("StorageClass %s is of driver %s, which these operators "+
			"do not maintain", *name, f.Class.Provisioner), ""}, false
	}
	mode := f.Class.VolumeBindingMode
	if mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer &&
		f.Claim.Annotations[selectedNode] == "" {
		return Link{Warning, fmt.Sprintf("StorageClass %s waits for the first pod that uses the "+
			"claim (WaitForFirstConsumer), and no such pod has been scheduled", *name), ""}, false
	}
	return Link{OK, describeClass(f.Class, f.System.Title), ""}, true
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
	name := f.Class.Parameters["type"]
	for _, finding := range diagnosis.Driver(f.System.Driver, 0) {
		if name != "" && strings.HasSuffix(finding.Type, "ShareTypesServed") {
			for fault := range strings.SplitSeq(finding.Message, "\n") {
				if strings.HasPrefix(fault, fmt.Sprintf("share type %q ", name)) {
					return []Link{{Problem, fault, finding.Runbook}}
				}
			}
		}
	}
	return nil
}

// requestLink says whether the driver has been asked for the volume.
func (f ClaimFacts) requestLink() Link {
	if f.EventsHidden {
		return Link{NotVisible, "the events of the claim", ""}
	}
	events := newestFirst(f.Events)
	i := slices.IndexFunc(events, func(e corev1.Event) bool { return e.Reason == "Provisioning" })
	if i < 0 {
		return Link{NotReached, "no request for this claim was sent to OpenStack yet", ""}
	}
	return Link{Progress, "the driver has been creating the volume for " +
		age(f.Now, timeOf(events[i])), ""}
}

func (f ClaimFacts) boundLinks() []Link {
	if f.Volume == nil {
		return []Link{{
			NotVisible, "bound to PersistentVolume " + f.Claim.Spec.VolumeName, "",
		}}
	}
	text := "bound to PersistentVolume " + f.Volume.Name
	if csi := f.Volume.Spec.CSI; csi != nil {
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
	links := []Link{{Progress, fmt.Sprintf("grows from %s to %s", has, want), ""}}
	for _, c := range f.Claim.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" {
			links = append(links, Link{Progress, string(c.Type) + ": " + c.Message, ""})
		}
	}
	links = append(links, f.System.links(Resizer)...)
	return append(links, eventLinks(f.Events, f.Now)...)
}
