package manila

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/storageclass"
)

const (
	servedType = "ManilaShareTypesServed"
	// servedManager is the field manager of the condition. It must never change.
	servedManager = "Manila-ShareTypes"
	// maxListed is the maximum number of share types in the condition.
	maxListed = 10
)

// storageClassController reconciles one StorageClass for each share type, by the cloud probe.
type storageClassController struct {
	*storageclass.Controller
	cluster  *cluster.Cluster
	topology *topology
}

func newStorageClassController(
	s plugin.Dependencies, topology *topology,
) *storageClassController {
	c := &storageClassController{cluster: s.Cluster, topology: topology}
	names := classes.NamesOf(choice.Manila, s.Driver)
	c.Controller = storageclass.New(s.Cluster, s.Events, topology.choices, names, c)
	return c
}

// setShareTypes receives the results of the cloud probe. Without an answer, it changes nothing.
func (c *storageClassController) setShareTypes(result cloudprobe.Result[[]openstack.Type]) {
	if result.Err == nil && result.Reason != reasonNoManila {
		c.SetTypes(result.Found)
	}
}

// Required returns the StorageClass that the administrator has chosen.
func (c *storageClassController) Required(
	w classes.Class, existing *storagev1.StorageClass,
) *storagev1.StorageClass {
	class := c.OfShares(w, c.cluster.Namespaces.Guest, loginSecret)
	w.SetTopology(class, existing, ptr.Deref(c.topology.enabled(), false))
	return class
}

// Created returns whether the class names the Secret of this operator.
func (c *storageClassController) Created(class *storagev1.StorageClass) bool {
	return class.Parameters["csi.storage.k8s.io/provisioner-secret-name"] == loginSecret &&
		class.Parameters["csi.storage.k8s.io/provisioner-secret-namespace"] == c.cluster.Namespaces.Guest
}

// Report writes the condition about share types without a class, and classes without a share type.
func (c *storageClassController) Report(ctx context.Context, faults []string) error {
	served := cluster.NewCondition(servedType, opv1.ConditionTrue, "AsExpected",
		"No share type is gone or without a StorageClass")
	if len(faults) > 0 {
		served.WithStatus(opv1.ConditionFalse).WithReason("PartlyServed").
			WithMessage(cluster.Joined(faults, maxListed, "\n"))
	}
	return cluster.ApplyConditions(ctx, c.cluster.Operator, servedManager, served)
}
