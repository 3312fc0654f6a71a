package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// SnapshotFacts are the objects about a VolumeSnapshot. An object that is nil does not exist.
type SnapshotFacts struct {
	Snapshot *snapshotv1.VolumeSnapshot
	Class    *snapshotv1.VolumeSnapshotClass
	Content  *snapshotv1.VolumeSnapshotContent
	// Source is the claim of which it is the snapshot.
	Source *corev1.PersistentVolumeClaim
	Events []corev1.Event
	Now    time.Time
	// Classes are the names of all VolumeSnapshotClasses, read if the snapshot has none.
	Classes []string
	// Gone is the name of the driver's ClusterCSIDriver if it does not exist.
	Gone string
	// System is nil if another driver, or none, serves the snapshot.
	System *System
}

// Snapshot returns the links from a VolumeSnapshot to the cloud.
func Snapshot(f SnapshotFacts) []Link {
	status := f.Snapshot.Status
	deleting := f.Snapshot.DeletionTimestamp != nil
	if !deleting && status != nil && status.ReadyToUse != nil && *status.ReadyToUse {
		return []Link{{OK, "the snapshot is ready to use" + f.handle(), ""}}
	}
	if !deleting && diagnosis.IsIgnored(f.Snapshot, f.Now) {
		return []Link{{Problem, fmt.Sprintf("no snapshot controller has processed the snapshot "+
			"for more than %v. Install a snapshot controller, or check the logs of the one in the "+
			"cluster", diagnosis.SnapshotGrace), "openstackcsinotserved"}}
	}
	own, known := f.errorLinks()
	if deleting {
		return f.deletionLinks(own, known)
	}
	links := []Link{f.classLink()}
	if f.Source != nil && f.Source.Status.Phase != corev1.ClaimBound {
		links = append([]Link{{Problem, fmt.Sprintf("pvc/%s, of which it is the snapshot, is %s. Run: "+
			"kubectl openstack-csi why pvc/%s", f.Source.Name, f.Source.Status.Phase, f.Source.Name), ""}},
			nearby(links)...)
		known = decisive
	}
	links = append(links, blame(own, known, f.System, Snapshotter)...)
	if f.Content == nil {
		return append(links, Link{Progress, "no VolumeSnapshotContent exists yet", ""})
	}
	return append(links, Link{Progress, "OpenStack has not finished VolumeSnapshotContent " +
		f.Content.Name + f.handle(), ""})
}

// errorLinks returns the errors of the snapshot and of its content, or else its events.
func (f SnapshotFacts) errorLinks() (links []Link, known answer) {
	var messages []*string
	if content := f.Content; content != nil && content.Status != nil && content.Status.Error != nil {
		messages = append(messages, content.Status.Error.Message)
	}
	if status := f.Snapshot.Status; status != nil && status.Error != nil {
		messages = append(messages, status.Error.Message)
	}
	for _, m := range messages {
		if m != nil {
			l, leads := errorLink(*m)
			links, known = append(links, l), max(known, leads)
		}
	}
	if len(links) == 0 {
		return eventLinks(recent(f.Events, f.Snapshot.CreationTimestamp.Time), f.Now)
	}
	return links, known
}

// deletionLinks says what keeps a snapshot that is being deleted.
func (f SnapshotFacts) deletionLinks(own []Link, known answer) []Link {
	if f.Content == nil {
		return []Link{{Problem, "kept by the finalizers " +
			strings.Join(f.Snapshot.Finalizers, ", ") + ". Check the snapshot controller", ""}}
	}
	links := blame(own, known, f.System, Snapshotter)
	text := "OpenStack has not deleted snapshot" + strings.TrimPrefix(f.handle(), ", in OpenStack") +
		" (VolumeSnapshotContent " + f.Content.Name + ")"
	if c := Cause(links); c != nil {
		text += ": " + c.Text
	}
	return append([]Link{{Problem, text, runbookOperations}}, links...)
}

func (f SnapshotFacts) handle() string {
	if f.Content == nil || f.Content.Status == nil || f.Content.Status.SnapshotHandle == nil {
		return ""
	}
	return ", in OpenStack " + *f.Content.Status.SnapshotHandle
}

func (f SnapshotFacts) classLink() Link {
	name := f.Snapshot.Spec.VolumeSnapshotClassName
	switch {
	case f.Class != nil && name == nil:
		return Link{OK, "VolumeSnapshotClass " + f.Class.Name + ", the default", ""}
	case name == nil:
		return Link{Problem, "the snapshot names no VolumeSnapshotClass, and none is the default of " +
			"its driver. Name one in spec.volumeSnapshotClassName" + names(f.Classes), ""}
	case f.Class == nil:
		return Link{Problem, "VolumeSnapshotClass " + *name + " does not exist" +
			cmp.Or(closest(*name, f.Classes), names(f.Classes)), ""}
	case f.Gone != "":
		return Link{Problem, Gone(f.Gone), "openstackcsioperatorabsent"}
	case f.System == nil:
		return Link{Warning, fmt.Sprintf("VolumeSnapshotClass %s is of driver %s, which these "+
			"operators do not maintain", *name, f.Class.Driver), ""}
	}
	return Link{OK, "VolumeSnapshotClass " + *name + ", driver " + f.System.Title, ""}
}

// names lists names behind a sentence.
func names(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return ". These exist: " + strings.Join(all, ", ")
}
