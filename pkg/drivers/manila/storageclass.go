package manila

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
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

// storageClassController reconciles one StorageClass for each share type. It subscribes to the
// cloud probe.
type storageClassController struct {
	*storageclass.Controller
	cluster *cluster.Cluster
	choices *plugin.Choices
}

func newStorageClassController(
	s plugin.Dependencies, choices *plugin.Choices,
) *storageClassController {
	c := &storageClassController{cluster: s.Cluster, choices: choices}
	c.Controller = storageclass.New(s.Cluster, s.Events, choices, classNames(), c)
	return c
}

func classNames() storageclass.Names {
	return storageclass.Names{
		Provisioner: string(Name), Prefix: "csi-manila-", Kind: choice.Manila, ConfigMap: userConfigMap,
		Service: service, Type: "ShareType", Noun: "share type", Volumes: "shares",
	}
}

// setShareTypes receives the results of the cloud probe. A probe that did not reach Manila changes
// nothing.
func (c *storageClassController) setShareTypes(result cloudprobe.Result[[]openstack.Type]) {
	if result.Err == nil && result.Reason != reasonNoManila {
		c.SetTypes(result.Found)
	}
}

// parameters returns the parameters for the driver, except the Secrets.
func parameters(w storageclass.Class) map[string]string {
	parameters := map[string]string{storageclass.TypeParameter: w.Type.Name}
	if w.Type.NeedsNetwork && w.Options.ShareNetworkID != "" {
		parameters["shareNetworkID"] = w.Options.ShareNetworkID
	}
	if len(w.Options.ShareClients) > 0 {
		parameters["nfs-shareClient"] = strings.Join(w.Options.ShareClients, ",")
	}
	if len(w.Options.ShareMetadata) > 0 {
		metadata, _ := json.Marshal(w.Options.ShareMetadata) // texts cannot fail
		parameters["appendShareMetadata"] = string(metadata)
	}
	return parameters
}

// Required returns the StorageClass that the administrator has chosen.
func (c *storageClassController) Required(w storageclass.Class) *storagev1.StorageClass {
	parameters := parameters(w)
	for _, call := range []string{"provisioner", "controller-expand", "node-stage", "node-publish"} {
		parameters["csi.storage.k8s.io/"+call+"-secret-name"] = loginSecret
		parameters["csi.storage.k8s.io/"+call+"-secret-namespace"] = c.cluster.Namespaces.Guest
	}
	class := &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: w.Name},
		Provisioner:          string(Name),
		Parameters:           parameters,
		ReclaimPolicy:        new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    new(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: new(true),
	}
	w.Options.Apply(class)
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
