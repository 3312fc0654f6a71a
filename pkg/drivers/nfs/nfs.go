// Package nfs is the companion plugin of the NFS CSI node plugin, which mounts the shares that
// Manila provides. It contains only assets, and shares the ClusterCSIDriver, the namespace and the
// cloud probe of Manila. cmd/manila-operator passes it to pkg/operator.
package nfs

import (
	assets "github.com/openstack-csi/csi-operator/assets/drivers/nfs"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// Companion returns the plugin for a leading driver with this namespace.
func Companion(namespace string) plugin.Driver {
	return plugin.Driver{ConditionPrefix: "NFS", Assets: assets.Assets(), Namespace: namespace}
}
