package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const (
	// snapshotsInterval is the time between two lists of VolumeSnapshots.
	snapshotsInterval = 5 * time.Minute
	// maxSnapshots is the number of VolumeSnapshots in a list.
	maxSnapshots = 100
)

// snapshotsServed returns the controller of the condition that reports a cluster without a snapshot
// controller, or nil for a driver without a VolumeSnapshotClass. It lists the metadata of some
// VolumeSnapshots of any driver instead of watching them.
func (d *driver) snapshotsServed(name string) (factory.Controller, error) {
	if len(d.bundle.Select(bundle.SnapshotClass, flavour.Guest)) == 0 {
		return nil, nil
	}
	client := d.cluster.Side(flavour.Guest).Metadata.Resource(schema.GroupVersionResource{
		Group: resourceapply.VolumeSnapshotClassGroup, Version: resourceapply.VolumeSnapshotClassVersion,
		Resource: "volumesnapshots",
	})
	conditionType := d.service() + "SnapshotsServed"
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		list, err := client.List(ctx, metav1.ListOptions{Limit: maxSnapshots})
		switch {
		case apierrors.IsNotFound(err) && d.snapshotCRD.Exists():
			return d.applyOptional(ctx, name, conditionType, d.unserved(conditionType))
		case apierrors.IsNotFound(err): // the CRD does not exist, so there is no class either
			return d.applyOptional(ctx, name, conditionType, nil)
		case err != nil:
			// As an error it would be repeated immediately, and several times.
			klog.FromContext(ctx).Error(err, "Failed to list VolumeSnapshots")
			return nil
		}
		return d.applyOptional(ctx, name, conditionType, d.served(conditionType, list.Items))
	}
	return factory.New().
		WithSync(cluster.WhileManaged(d.operator, sync)).
		ResyncEvery(snapshotsInterval).
		ToController(name, d.events), nil
}

// unserved returns the condition for definitions that do not serve the version of the operator. An
// old snapshot controller serves only v1beta1.
func (d *driver) unserved(conditionType string) *cluster.Condition {
	crd := d.cluster.Name(flavour.Guest, "CustomResourceDefinition", "",
		resourceapply.VolumeSnapshotClassResource+"."+resourceapply.VolumeSnapshotClassGroup)
	return cluster.NewCondition(conditionType, opv1.ConditionFalse, "NotServed", crd+" exists, but "+
		"the API server does not serve version v1 of VolumeSnapshots, so the operator creates no "+
		"VolumeSnapshotClass. Install the CustomResourceDefinitions of a supported snapshot controller")
}

// served returns the condition for a list of VolumeSnapshots. It names the oldest one that is
// ignored, so that the message stays the same when there are more.
func (d *driver) served(
	conditionType string, snapshots []metav1.PartialObjectMetadata,
) *cluster.Condition {
	ignored := slices.DeleteFunc(snapshots, func(s metav1.PartialObjectMetadata) bool {
		return !diagnosis.IsIgnored(&s, d.clock.Now())
	})
	if len(ignored) == 0 {
		return cluster.NewCondition(conditionType, opv1.ConditionTrue, "AsExpected",
			"No VolumeSnapshot waits for a snapshot controller")
	}
	oldest := slices.MinFunc(ignored, func(a, b metav1.PartialObjectMetadata) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return cluster.NewCondition(conditionType, opv1.ConditionFalse, "NoSnapshotController",
		fmt.Sprintf("No snapshot controller has processed %s for more than %v. Install a snapshot "+
			"controller, or check the logs of the one in the cluster",
			d.cluster.Name(flavour.Guest, "VolumeSnapshot", oldest.Namespace, oldest.Name),
			diagnosis.SnapshotGrace))
}

// applyOptional writes a condition that not each cluster has. nil removes it.
func (d *driver) applyOptional(
	ctx context.Context, manager, conditionType string, c *cluster.Condition,
) error {
	if c != nil {
		return cluster.ApplyConditions(ctx, d.operator, manager, c)
	}
	_, status, _, err := d.operator.GetOperatorState()
	if err != nil || v1helpers.FindOperatorCondition(status.Conditions, conditionType) == nil {
		return err
	}
	return cluster.ApplyConditions(ctx, d.operator, manager)
}
