package adapter

import (
	"context"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
)

// ListVolumes lists the PersistentVolumes of a driver.
func ListVolumes(ctx context.Context, driver, kubeconfig string) ([]manila.Volume, error) {
	return volumes{driver: driver, kubeconfig: kubeconfig}.list(ctx)
}
