package kubectl

import (
	"cmp"
	"context"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// classLink says whether the class of the snapshot leads to the driver of its volume.
func (f *snapshotFacts) classLink() Link {
	name := f.snapshot.Spec.VolumeSnapshotClassName
	of, one := "its driver", "one of its driver"
	if f.driver != "" {
		of = f.guest.titleOf(f.driver)
		one = "a new one of " + of
	}
	if len(f.classes) > 0 {
		one = diagnosis.List(f.classes)
	}
	switch {
	case name == nil && f.static() != "":
		return linkf(OK, "the snapshot needs no VolumeSnapshotClass")
	case f.guest.hidden["VolumeSnapshotClasses"]:
		return linkf(NotVisible, "the VolumeSnapshotClasses")
	case name == nil && len(f.defaults) > 1:
		return linkf(Problem, "the snapshot names no VolumeSnapshotClass, and %s are both the default "+
			"of %s", diagnosis.List(f.defaults), of).
			then("Name one in spec.volumeSnapshotClassName, or let only one be the default")
	case name == nil && f.class == nil:
		return linkf(Problem, "the snapshot names no VolumeSnapshotClass, and none is the default of "+
			"%s", of).then("Name one in spec.volumeSnapshotClassName: %s", one)
	case name == nil:
		return linkf(OK, "VolumeSnapshotClass %s, the default", f.class.Name)
	case f.class == nil:
		return linkf(Problem, "VolumeSnapshotClass %s does not exist", *name).
			then("%s", cmp.Or(closest(*name, f.classes), "Create it, or use another one: "+one))
	case f.class.Driver != f.driver:
		return linkf(Problem, "VolumeSnapshotClass %s is of %s, and the volume%s of %s", *name,
			f.guest.titleOf(f.class.Driver), f.of(), of).
			then("Create the snapshot again with another class: %s", one)
	case f.isGone(f.sys, f.driver):
		return f.goneLink(f.driver)
	case f.sys == nil:
		return linkf(Warning, "VolumeSnapshotClass %s is of driver %s, which these operators do not "+
			"maintain", *name, f.class.Driver)
	}
	return linkf(OK, "VolumeSnapshotClass %s, driver %s", *name, f.sys.of.title)
}

// isContentDeleted returns whether the content is being deleted, and the snapshot is not.
func (f *snapshotFacts) isContentDeleted() bool {
	return f.content != nil && f.content.DeletionTimestamp != nil
}

// contentLinks says why a content cannot be that of the snapshot.
func (f *snapshotFacts) contentLinks(context.Context) []Link {
	if f.content == nil {
		if f.guest.hidden["VolumeSnapshotContents"] {
			return only(NotVisible, "VolumeSnapshotContent %s, which it names", f.static())
		}
		return []Link{linkf(Problem, "VolumeSnapshotContent %s, which it names, does not exist",
			f.static()).then("Create it with source.snapshotHandle and volumeSnapshotRef %s/%s",
			f.snapshot.Namespace, f.snapshot.Name)}
	}
	ref, name := f.content.Spec.VolumeSnapshotRef, "VolumeSnapshotContent "+f.content.Name
	another := "Create another VolumeSnapshotContent with volumeSnapshotRef " + f.snapshot.Namespace +
		"/" + f.snapshot.Name + " and a new VolumeSnapshot that names it"
	switch {
	case f.isContentDeleted():
		return []Link{linkf(Problem, "%s is being deleted, and VolumeSnapshot %s/%s still uses it", name,
			f.snapshot.Namespace, f.snapshot.Name).
			then("It is deleted after the VolumeSnapshot, with deletionPolicy Delete also in OpenStack")}
	case ref.Namespace != f.snapshot.Namespace || ref.Name != f.snapshot.Name:
		return []Link{linkf(Problem, "%s, which it names, belongs to VolumeSnapshot %s/%s", name,
			ref.Namespace, ref.Name).then("%s", another)}
	case ref.UID != "" && ref.UID != f.snapshot.UID:
		return []Link{linkf(Problem, "%s, which it names, belongs to an earlier VolumeSnapshot of the "+
			"same name", name).then("%s", another)}
	case f.content.Spec.Source.SnapshotHandle == nil:
		return []Link{linkf(Problem, "%s, which it names, was created for another VolumeSnapshot: it "+
			"has no source.snapshotHandle", name).then("%s", another)}
	}
	return nil
}

// leftLinks explains a content whose snapshot is gone.
func (f *snapshotFacts) leftLinks(ctx context.Context) []Link {
	of := f.snapshot.Namespace + "/" + f.snapshot.Name
	if f.content.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentRetain {
		return []Link{linkf(Problem, "its VolumeSnapshot %s is gone, and the deletion policy Retain "+
			"keeps it and the snapshot%s", of, f.inOpenStack()).then("Import it: create a " +
			"VolumeSnapshotContent with this snapshotHandle; or delete both, here and in OpenStack")}
	}
	fails := "its VolumeSnapshot " + of + " is gone, and it cannot be deleted"
	return append(f.sys.judge(f.errorLinks(ctx, fails), diagnosis.Snapshotter), linkf(Progress,
		"its VolumeSnapshot %s is gone, and nothing has deleted it", of).
		then("Delete it. If it stays: %s", f.askSnapshotController(ctx)))
}

// doubleDefault says that a driver has, or will have with that of its operator, several default
// VolumeSnapshotClasses; nothing if not.
func (s *session) doubleDefault(ctx context.Context, d driver) []string {
	var names []string
	isCreated := d.kind == choice.Manila // whose class is no default
	for _, c := range list[snapshotv1.VolumeSnapshotClassList](ctx, s.guest).Items {
		isCreated = isCreated || c.Name == charts.Snapshots
		if c.Driver == d.name && c.Annotations[charts.DefaultSnapshots] == "true" {
			names = append(names, c.Name)
		}
	}
	if !isCreated {
		names = append(names, charts.Snapshots+" of the operator")
	}
	if len(names) < 2 { //nolint:mnd // one is right
		return nil
	}
	return []string{"VolumeSnapshotClass " + strings.Join(names, ", ") + ": " + charts.TwoDefaults}
}
