package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
)

// VolumeFacts are the objects about a PersistentVolume.
type VolumeFacts struct {
	Now         time.Time
	Volume      *corev1.PersistentVolume
	Events      []corev1.Event
	Attachments []storagev1.VolumeAttachment
	// System is nil if another driver serves the volume.
	System *System
}

// Volume returns the links from a PersistentVolume to the cloud.
func Volume(f VolumeFacts) []Link {
	v := f.Volume
	handle, claim := "the storage", "its claim"
	if served := source.Of(v); served != nil {
		handle = served.VolumeHandle + " in OpenStack"
	}
	if ref := v.Spec.ClaimRef; ref != nil {
		claim = "its claim " + ref.Namespace + "/" + ref.Name
	}
	keeps := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	released := v.Status.Phase == corev1.VolumeReleased
	switch {
	case v.DeletionTimestamp == nil && released && keeps:
		return []Link{{Problem, fmt.Sprintf("%s is gone, and the reclaim policy Retain keeps %s. Delete "+
			"both the PersistentVolume and %s; or to use the data again, run: kubectl patch pv %s "+
			`--type=json -p '[{"op":"remove","path":"/spec/claimRef/uid"}]'`+", and create the claim",
			claim, handle, handle, v.Name), ""}}
	case v.DeletionTimestamp != nil && v.Status.Phase == corev1.VolumeBound:
		return []Link{{Problem, claim + " still uses it. The volume is deleted after the claim", ""}}
	case v.Status.Phase == corev1.VolumeBound:
		return []Link{{OK, "used by " + strings.TrimPrefix(claim, "its ") + ", " + handle, ""}}
	case v.DeletionTimestamp == nil && v.Status.Phase == corev1.VolumeAvailable:
		return []Link{{OK, "waits for a claim, " + handle, ""}}
	}
	var own []Link
	for _, a := range f.Attachments {
		if name := a.Spec.Source.PersistentVolumeName; name != nil && *name == v.Name {
			own = append(own, Link{Problem, fmt.Sprintf("%s is still attached to node %s "+
				"(VolumeAttachment %s)", handle, a.Spec.NodeName, a.Name), ""})
		}
	}
	said, known := eventLinks(recent(f.Events, v.CreationTimestamp.Time), f.Now)
	if len(own) > 0 {
		known = decisive
	}
	own = append(own, said...)
	if v.Status.Message != "" && len(own) == 0 {
		l, leads := errorLink(v.Status.Message)
		own, known = append(own, l), leads
	}
	links := blame(own, known, f.System, Provisioner)
	return append(links, Link{Progress, handle + " is not deleted yet", ""})
}
