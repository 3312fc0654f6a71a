package manila

import (
	"fmt"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resourcesynccontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// newCACopier copies the ConfigMap with the cloud's CA from where the administrator keeps it to where the operands mount it.
func newCACopier(s plugin.Surroundings) (factory.Controller, error) {
	guest := s.Cluster.Side(bundle.Guest)
	copier := resourcesynccontroller.NewResourceSyncController("ManilaResourceSyncController", s.Cluster.Operator, guest.Informers,
		guest.Kube.CoreV1(), guest.Kube.CoreV1(), s.Events)
	from := resourcesynccontroller.ResourceLocation{Namespace: cluster.UserConfigNamespace, Name: caConfigMap}
	to := resourcesynccontroller.ResourceLocation{Namespace: s.Cluster.Placement.Node, Name: caConfigMap}
	if err := copier.SyncConfigMap(to, from); err != nil {
		return nil, fmt.Errorf("copying ConfigMap %s from %s to %s: %w", caConfigMap, from.Namespace, to.Namespace, err)
	}
	return copier, nil
}
