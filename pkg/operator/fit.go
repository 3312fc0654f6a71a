package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// mustFitFlavour returns an error if the operator does not read the objects of OpenShift, but the
// cluster is OpenShift: two operators would then maintain one driver. Other operators wait for the
// objects, which the API server of OpenShift does not serve while it starts.
func mustFitFlavour(ctx context.Context, c *cluster.Cluster) error {
	if c.Config.Proxies != nil {
		return nil
	}
	found, err := isOpenShift(ctx, c.Side(flavour.Guest))
	if err != nil {
		return fmt.Errorf("finding out whether the cluster is OpenShift: %w", err)
	}
	if found {
		return errors.New("this cluster is OpenShift: install the operator with the manifests for " +
			"OpenShift, without --flavour=kubernetes")
	}
	return nil
}

// isOpenShift returns whether the API server is that of OpenShift: whether it has a resource that
// only OpenShift's own API server serves, because nobody can get its objects, unlike those of any
// CustomResourceDefinition. The ClusterVersion decides for an administrator who runs the operator
// outside the cluster; the ServiceAccount of the operator may not read it.
func isOpenShift(ctx context.Context, guest *cluster.Clients) (bool, error) {
	verbs, err := verbsOf(guest, "project.openshift.io/v1", "projectrequests")
	if err != nil || verbs != nil && !slices.Contains(verbs, "get") {
		return err == nil, err
	}
	versions := configv1.GroupVersion.WithResource("clusterversions")
	verbs, err = verbsOf(guest, versions.GroupVersion().String(), versions.Resource)
	if err != nil || verbs == nil {
		return false, err
	}
	_, err = guest.Dynamic.Resource(versions).Get(ctx, "version", metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}

// verbsOf returns the verbs of a resource, nil if the API server does not serve it.
func verbsOf(guest *cluster.Clients, groupVersion, resource string) (metav1.Verbs, error) {
	served, err := guest.Kube.Discovery().ServerResourcesForGroupVersion(groupVersion)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(served.APIResources, func(r metav1.APIResource) bool {
		return r.Name == resource
	})
	if i < 0 {
		return nil, nil
	}
	return served.APIResources[i].Verbs, nil
}
