package operator

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// deployed reports whether a workload of the driver exists in the cluster of its controllers;
// standalone this includes the node plugins. It reads the API server, because the cache may be
// empty at first. It ignores the guest cluster of HyperShift: the administrator of a guest cluster
// can create a DaemonSet of any name, which must not deploy a driver in the management cluster.
func (d *driver) deployed(ctx context.Context) (bool, error) {
	for _, asset := range d.bundle.Assets() {
		workload := asset.Role == bundle.ControllerWorkload || asset.Role == bundle.NodeWorkload
		if !workload || d.cluster.Side(asset.Side) != d.cluster.Side(flavour.ControlPlane) {
			continue
		}
		if found, err := d.exists(ctx, asset); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

func (d *driver) exists(ctx context.Context, asset bundle.Asset) (bool, error) {
	object, err := metadata(asset)
	if err != nil {
		return false, err
	}
	apps := d.cluster.Side(asset.Side).Kube.AppsV1()
	if asset.Role == bundle.ControllerWorkload {
		_, err = apps.Deployments(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	} else {
		_, err = apps.DaemonSets(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading the driver's %s %s/%s: %w",
			object.Kind, object.Namespace, object.Name, err)
	}
	return err == nil, nil
}
