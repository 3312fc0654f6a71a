// Package nfs is the plugin for the NFS CSI node plugin, which mounts the shares that Manila provides. It is a companion: it
// has Manila's ClusterCSIDriver, namespace and gate, and nothing but assets of its own. Its caller is the command that joins it
// to the core.
package nfs

import (
	opv1 "github.com/openshift/api/operator/v1"

	assets "github.com/openstack-csi/csi-operator/assets/drivers/nfs"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// Companion returns the plugin for a leader of this name and namespace.
func Companion(leader opv1.CSIDriverName, namespace string) plugin.Driver {
	return plugin.Driver{
		Name:            leader,
		ConditionPrefix: "NFS",
		Assets:          assets.Assets(),
		Namespace:       namespace,
	}
}
