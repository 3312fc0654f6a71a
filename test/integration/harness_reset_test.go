//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

// resettableResources returns the resources of which the reset deletes all objects that the
// devcluster did not create. Owners precede the objects that they own.
func resettableResources() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, group := range []struct{ name, resources string }{
		{"apps", "deployments daemonsets replicasets controllerrevisions"},
		{"", "pods persistentvolumeclaims services configmaps secrets serviceaccounts"},
		{"policy", "poddisruptionbudgets"},
		{"networking.k8s.io", "networkpolicies"},
		{"coordination.k8s.io", "leases"},
		{"rbac.authorization.k8s.io", "rolebindings roles"},
		{"monitoring.coreos.com", "servicemonitors"},
		{"", "persistentvolumes"},
		{"storage.k8s.io", "storageclasses csidrivers"},
		{"snapshot.storage.k8s.io", "volumesnapshotclasses"},
		{"rbac.authorization.k8s.io", "clusterrolebindings clusterroles"},
	} {
		for name := range strings.FieldsSeq(group.resources) {
			all = append(all, resource(group.name, name))
		}
	}
	return append(all, hostedControlPlanes(), resource("", "events"))
}

// configCollections returns the objects that describe a cluster.
func configCollections() []collection {
	return []collection{
		{configResource("infrastructures"), ""},
		{configResource("proxies"), ""},
		{configResource("apiservers"), ""},
		{resource("operator.openshift.io", "storages"), ""},
	}
}

// baseline contains the objects of the cluster as the devcluster created them, by resource and key.
type baseline map[schema.GroupVersionResource]map[string]unstructured.Unstructured

func key(o unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

// list returns the objects of a collection, or none if the cluster does not serve the resource.
func (c *cluster) list(ctx context.Context, in collection) ([]unstructured.Unstructured, error) {
	list, err := c.of(in).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", in.resource.Resource, err)
	}
	return list.Items, nil
}

func (c *cluster) recordBaseline(ctx context.Context) (baseline, error) {
	resources := append(resettableResources(), clusterCSIDrivers())
	for _, in := range c.restored {
		resources = append(resources, in.resource)
	}
	b := baseline{}
	for _, resource := range resources {
		objects, err := c.list(ctx, collection{resource, ""})
		if err != nil {
			return nil, err
		}
		b[resource] = map[string]unstructured.Unstructured{}
		for _, object := range objects {
			b[resource][key(object)] = object
		}
	}
	return b, nil
}

// reset returns the clusters to their baseline.
func (c *testCluster) reset(ctx context.Context) error {
	var errs []error
	for _, each := range c.clusters() {
		errs = append(errs, each.reset(ctx))
	}
	return errors.Join(errs...)
}

func (c *cluster) reset(ctx context.Context) error {
	for _, resource := range resettableResources() {
		if err := c.deleteAdded(ctx, resource); err != nil {
			return err
		}
	}
	for _, in := range c.restored {
		if err := c.restore(ctx, in); err != nil {
			return err
		}
	}
	if err := c.recreateDriver(ctx); err != nil {
		return err
	}
	return c.awaitDeleted(ctx)
}

// addedObjects returns the objects that are not in the baseline and that Kubernetes did not create.
func (c *cluster) addedObjects(
	ctx context.Context, resource schema.GroupVersionResource,
) ([]unstructured.Unstructured, error) {
	objects, err := c.list(ctx, collection{resource, ""})
	return slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool {
		_, present := c.baseline[resource][key(o)]
		return present || strings.HasPrefix(o.GetNamespace(), "kube-") ||
			resource.Resource == "configmaps" && o.GetName() == "kube-root-ca.crt" ||
			resource.Resource == "serviceaccounts" && o.GetName() == "default"
	}), err
}

func (c *cluster) deleteAdded(ctx context.Context, resource schema.GroupVersionResource) error {
	if resource.Resource == "events" {
		return c.of(collection{resource, c.namespace}).
			DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	objects, err := c.addedObjects(ctx, resource)
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range objects {
		errs = append(errs, c.remove(ctx, resource, object))
	}
	return errors.Join(errs...)
}

// remove deletes an object immediately, even if it has finalizers.
func (c *cluster) remove(
	ctx context.Context, resource schema.GroupVersionResource, object unstructured.Unstructured,
) error {
	in := collection{resource, object.GetNamespace()}
	if len(object.GetFinalizers()) > 0 {
		err := c.patch(ctx, in, object.GetName(), `{"metadata":{"finalizers":null}}`)
		if ignoreNotFound(err) != nil {
			return fmt.Errorf("removing finalizers of %s %q: %w", resource.Resource, key(object), err)
		}
	}
	err := c.of(in).Delete(ctx, object.GetName(), metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		PropagationPolicy:  ptr.To(metav1.DeletePropagationBackground),
	})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", resource.Resource, key(object), err)
	}
	return nil
}

// restore restores the original content of objects and creates those that were deleted.
func (c *cluster) restore(ctx context.Context, in collection) error {
	client := c.of(in)
	for _, first := range c.baseline[in.resource] {
		if in.namespace != "" && first.GetNamespace() != in.namespace {
			continue
		}
		now, err := client.Get(ctx, first.GetName(), metav1.GetOptions{})
		if err == nil && now.GetDeletionTimestamp() != nil {
			if err := c.remove(ctx, in.resource, *now); err != nil {
				return err
			}
			now, err = client.Get(ctx, first.GetName(), metav1.GetOptions{})
		}
		switch {
		case apierrors.IsNotFound(err):
			now, err = c.create(ctx, in.resource, first)
		case err == nil && now.GetResourceVersion() != first.GetResourceVersion():
			wanted := first.DeepCopy()
			wanted.SetUID(now.GetUID())
			wanted.SetResourceVersion(now.GetResourceVersion())
			now, err = client.Update(ctx, wanted, metav1.UpdateOptions{})
		}
		if err == nil {
			err = c.restoreStatus(ctx, in, first.Object["status"], now)
		}
		if err != nil {
			return fmt.Errorf("restoring %s %q: %w", in.resource.Resource, key(first), err)
		}
	}
	return nil
}

// restoreStatus restores a status that only tests write.
func (c *cluster) restoreStatus(
	ctx context.Context, in collection, status any, now *unstructured.Unstructured,
) error {
	ours := strings.HasSuffix(in.resource.Group, ".openshift.io")
	if !ours || status == nil && now.Object["status"] == nil {
		return nil
	}
	if status == nil {
		status = map[string]any{}
	}
	now.Object["status"] = status
	_, err := c.of(in).UpdateStatus(ctx, now, metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

// create creates an object with the content of an earlier one.
func (c *cluster) create(
	ctx context.Context, resource schema.GroupVersionResource, first unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	object := first.DeepCopy()
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	return c.of(collection{resource, first.GetNamespace()}).Create(ctx, object, metav1.CreateOptions{})
}

// recreateDriver replaces each ClusterCSIDriver by a new one without status.
func (c *cluster) recreateDriver(ctx context.Context) error {
	drivers := collection{clusterCSIDrivers(), ""}
	objects, err := c.list(ctx, drivers)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := c.remove(ctx, drivers.resource, object); err != nil {
			return err
		}
	}
	for _, first := range c.baseline[drivers.resource] {
		if _, err := c.create(ctx, drivers.resource, first); err != nil {
			return fmt.Errorf("creating ClusterCSIDriver %q: %w", first.GetName(), err)
		}
	}
	return nil
}

// awaitDeleted waits until the added objects are gone and no controller recreates them.
func (c *cluster) awaitDeleted(ctx context.Context) error {
	var left []string
	check := func(ctx context.Context) (bool, error) {
		left = nil
		for _, resource := range resettableResources() {
			if resource.Resource == "events" {
				continue
			}
			objects, err := c.addedObjects(ctx, resource)
			if err != nil {
				return false, err
			}
			for _, object := range objects {
				left = append(left, resource.Resource+" "+key(object))
				if err := c.remove(ctx, resource, object); err != nil {
					return false, err
				}
			}
		}
		return len(left) == 0, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, pollEvery, cleanUp, true, check); err != nil {
		return fmt.Errorf("resetting the %s cluster: %w; left: %s",
			c.name, err, strings.Join(left, ", "))
	}
	return nil
}
