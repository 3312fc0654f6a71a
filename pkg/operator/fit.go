package operator

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// mustFitFlavour returns an error if the operator does not read the objects of OpenShift, but the
// cluster is OpenShift: two operators would then maintain one driver. It asks for a resource that
// only OpenShift's own API server has: nobody can get its objects, unlike those of any
// CustomResourceDefinition. Reading an object would need a permission. Other operators wait for the
// objects, which the API server of OpenShift does not serve while it starts.
func mustFitFlavour(c *cluster.Cluster) error {
	if c.Config.Proxies != nil {
		return nil
	}
	found, err := c.Side(flavour.Guest).Kube.Discovery().
		ServerResourcesForGroupVersion("project.openshift.io/v1")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finding out whether the cluster is OpenShift: %w", err)
	}
	if err == nil && slices.ContainsFunc(found.APIResources, func(r metav1.APIResource) bool {
		return r.Name == "projectrequests" && !slices.Contains(r.Verbs, "get")
	}) {
		return errors.New("this cluster is OpenShift: install the operator with the manifests for " +
			"OpenShift, without --flavour=kubernetes")
	}
	return nil
}
