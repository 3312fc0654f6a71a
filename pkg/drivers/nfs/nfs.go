// Package nfs is the companion plugin of the NFS CSI node plugin, which mounts the shares that
// Manila provides. It contains only assets, and shares the ClusterCSIDriver, the namespace and the
// cloud probe of Manila. cmd/manila-operator passes it to pkg/operator.
package nfs

import (
	opv1 "github.com/openshift/api/operator/v1"

	assets "github.com/openstack-csi/csi-operator/assets/drivers/nfs"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// Companion returns the plugin for a leading driver of this name and namespace.
func Companion(leader opv1.CSIDriverName, namespace string) plugin.Driver {
	return plugin.Driver{
		Name:            leader,
		ConditionPrefix: "NFS",
		Assets:          assets.Assets(),
		Namespace:       namespace,
	}
}
