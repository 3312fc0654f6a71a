package operator

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// controllerOf returns the name of the Deployment of a driver, "" for none.
func controllerOf(b *bundle.Bundle) string {
	for _, asset := range b.Select(bundle.ControllerWorkload, flavour.ControlPlane) {
		if object, err := metadata(asset); err == nil {
			return object.Name
		}
	}
	return ""
}

// deployedID returns the ID with which the driver runs, "" if it does not: it outlives its object,
// and volumes have that ID.
func (i *installation) deployedID(ctx context.Context) (string, error) {
	if i.controller == "" {
		return "", nil
	}
	running, err := i.kube.AppsV1().Deployments(i.namespace).Get(ctx, i.controller,
		metav1.GetOptions{})
	if err != nil {
		return "", utilerrors.FilterOut(err, apierrors.IsNotFound)
	}
	for _, c := range running.Spec.Template.Spec.Containers {
		for _, argument := range c.Args {
			flag, id, _ := strings.Cut(argument, "=")
			if flag == "--cluster" || flag == "--cluster-id" {
				return id, nil
			}
		}
	}
	return "", nil
}

// clusterID returns the ID to record. If another one is recorded, that one stays until the spec
// confirms the change: volumes that exist have the recorded ID.
func (i *installation) clusterID(
	object *unstructured.Unstructured, recorded string,
) (id, ignored string) {
	const effect = "stays in use: the shares and volumes with this ID would become orphans, and " +
		"fences would not reach them. To keep it, set spec.clusterID to it; to change it, set " +
		"spec.replacesClusterID to it"
	chosen := textIn(object, "spec", "clusterID")
	wanted := cmp.Or(chosen, i.uid)
	switch {
	case recorded == "" || recorded == wanted ||
		recorded == textIn(object, "spec", "replacesClusterID"):
		return wanted, ""
	case chosen == "":
		return recorded, fmt.Sprintf("%s has no spec.clusterID, and the UID of this cluster is %s, but "+
			"status.clusterID %.63q %s", i.object, wanted, recorded, effect)
	}
	return recorded, fmt.Sprintf("spec.clusterID of %s is %.63q, but status.clusterID %.63q %s",
		i.object, chosen, recorded, effect)
}
