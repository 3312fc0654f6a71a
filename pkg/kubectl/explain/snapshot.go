package explain

import (
	"fmt"
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
	Events   []corev1.Event
	Now      time.Time
	// System is nil if another driver, or none, serves the snapshot.
	System *System
}

// Snapshot returns the links from a VolumeSnapshot to the cloud.
func Snapshot(f SnapshotFacts) []Link {
	status := f.Snapshot.Status
	if status != nil && status.ReadyToUse != nil && *status.ReadyToUse {
		return []Link{{OK, "the snapshot is ready to use" + f.handle(), ""}}
	}
	if diagnosis.IsIgnored(f.Snapshot, f.Now) {
		return []Link{{Problem, fmt.Sprintf("no snapshot controller has processed the snapshot "+
			"for more than %v. Install a snapshot controller, or check the logs of the one in the "+
			"cluster", diagnosis.SnapshotGrace), "openstackcsinotserved"}}
	}
	links := []Link{f.classLink()}
	if status != nil && status.Error != nil && status.Error.Message != nil {
		links = append(links, problemOf(*status.Error.Message))
	}
	if f.Content != nil && f.Content.Status != nil && f.Content.Status.Error != nil &&
		f.Content.Status.Error.Message != nil {
		links = append(links, problemOf(*f.Content.Status.Error.Message))
	}
	if f.System != nil {
		links = append(links, f.System.links(Snapshotter)...)
	}
	if Cause(links) == nil {
		links = append(links, eventLinks(f.Events, f.Now)...)
	}
	if f.Content == nil {
		return append(links, Link{NotReached, "no VolumeSnapshotContent exists yet", ""})
	}
	return append(links, Link{OK, "VolumeSnapshotContent " + f.Content.Name + f.handle(), ""})
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
	case name == nil:
		return Link{
			Problem, "the snapshot names no VolumeSnapshotClass, and none is the default",
			"",
		}
	case f.Class == nil:
		return Link{Problem, "VolumeSnapshotClass " + *name + " does not exist", ""}
	case f.System == nil:
		return Link{Warning, fmt.Sprintf("VolumeSnapshotClass %s is of driver %s, which these "+
			"operators do not maintain", *name, f.Class.Driver), ""}
	}
	return Link{OK, "VolumeSnapshotClass " + *name + ", driver " + f.System.Title, ""}
}

func problemOf(message string) Link {
	if means := meaning(message); means != "" {
		message = means + ". " + message
	}
	return Link{Problem, message, "openstackcsioperationsfail"}
}
