//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

// emptied are the resources of which the reset deletes what was not there at the beginning, owners before what they own.
func emptied() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "apps", Version: "v1", Resource: "controllerrevisions"},
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "persistentvolumeclaims"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"},
		{Version: "v1", Resource: "persistentvolumes"},
		{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
		{Group: "storage.k8s.io", Version: "v1", Resource: "csidrivers"},
		{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotclasses"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Version: "v1", Resource: "events"},
	}
}

// restored are the resources whose objects get back the content that they had at the beginning.
func restored() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "config.openshift.io", Version: "v1", Resource: "infrastructures"},
		{Group: "config.openshift.io", Version: "v1", Resource: "proxies"},
		{Group: "config.openshift.io", Version: "v1", Resource: "apiservers"},
		{Group: "operator.openshift.io", Version: "v1", Resource: "storages"},
	}
}

func clusterCSIDrivers() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "operator.openshift.io", Version: "v1", Resource: "clustercsidrivers"}
}

// baseline is the cluster as the devcluster made it.
type baseline struct {
	present map[schema.GroupVersionResource]map[string]bool
	content map[schema.GroupVersionResource][]unstructured.Unstructured
}

func key(o unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

func (c *devcluster) takeBaseline(ctx context.Context) (baseline, error) {
	b := baseline{map[schema.GroupVersionResource]map[string]bool{}, map[schema.GroupVersionResource][]unstructured.Unstructured{}}
	for _, resource := range emptied() {
		b.present[resource] = map[string]bool{}
		list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return b, fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		for _, object := range list.Items {
			b.present[resource][key(object)] = true
		}
	}
	for _, resource := range append(restored(), clusterCSIDrivers()) {
		list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return b, fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		b.content[resource] = list.Items
	}
	return b, nil
}

// reset makes the cluster what it was at the beginning.
func (c *devcluster) reset(ctx context.Context) error {
	for _, resource := range emptied() {
		if err := c.empty(ctx, resource); err != nil {
			return err
		}
	}
	for _, resource := range restored() {
		if err := c.restore(ctx, resource); err != nil {
			return err
		}
	}
	if err := c.renewDriver(ctx); err != nil {
		return err
	}
	return c.awaitEmpty(ctx)
}

// surplus are the objects that were not there at the beginning and do not come by themselves.
func (c *devcluster) surplus(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		return c.baseline.present[resource][key(o)] || strings.HasPrefix(o.GetNamespace(), "kube-") ||
			resource.Resource == "configmaps" && o.GetName() == "kube-root-ca.crt" ||
			resource.Resource == "serviceaccounts" && o.GetName() == "default"
	}), nil
}

func (c *devcluster) empty(ctx context.Context, resource schema.GroupVersionResource) error {
	if resource.Resource == "events" {
		return c.dynamic.Resource(resource).Namespace(operatorNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	objects, err := c.surplus(ctx, resource)
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range objects {
		errs = append(errs, c.remove(ctx, resource, object))
	}
	return errors.Join(errs...)
}

// remove deletes an object at once, whatever finalizers it has.
func (c *devcluster) remove(ctx context.Context, resource schema.GroupVersionResource, object unstructured.Unstructured) error {
	client := c.dynamic.Resource(resource).Namespace(object.GetNamespace())
	if len(object.GetFinalizers()) > 0 {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := client.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing finalizers of %s %q: %w", resource.Resource, key(object), err)
		}
	}
	err := client.Delete(ctx, object.GetName(), metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %q: %w", resource.Resource, key(object), err)
	}
	return nil
}

// restore gives objects their first content back, and creates those that are gone.
func (c *devcluster) restore(ctx context.Context, resource schema.GroupVersionResource) error {
	client := c.dynamic.Resource(resource)
	for _, first := range c.baseline.content[resource] {
		now, err := client.Get(ctx, first.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			now, err = c.create(ctx, resource, first)
		case err == nil && now.GetGeneration() != first.GetGeneration():
			wanted := first.DeepCopy()
			wanted.SetResourceVersion(now.GetResourceVersion())
			now, err = client.Update(ctx, wanted, metav1.UpdateOptions{})
		}
		if err != nil {
			return fmt.Errorf("restoring %s %q: %w", resource.Resource, first.GetName(), err)
		}
		if first.Object["status"] == nil {
			continue
		}
		wanted := now.DeepCopy()
		wanted.Object["status"] = first.Object["status"]
		if _, err := client.UpdateStatus(ctx, wanted, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("restoring the status of %s %q: %w", resource.Resource, first.GetName(), err)
		}
	}
	return nil
}

func (c *devcluster) create(ctx context.Context, resource schema.GroupVersionResource, first unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object := first.DeepCopy()
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	return c.dynamic.Resource(resource).Create(ctx, object, metav1.CreateOptions{})
}

// renewDriver replaces the ClusterCSIDriver by a new one, without status.
func (c *devcluster) renewDriver(ctx context.Context) error {
	resource := clusterCSIDrivers()
	list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	for _, object := range list.Items {
		if err := c.remove(ctx, resource, object); err != nil {
			return err
		}
	}
	for _, first := range c.baseline.content[resource] {
		if _, err := c.create(ctx, resource, first); err != nil {
			return fmt.Errorf("creating ClusterCSIDriver %q: %w", first.GetName(), err)
		}
	}
	return nil
}

// awaitEmpty waits until deleted objects are gone and nothing that they owned comes back.
func (c *devcluster) awaitEmpty(ctx context.Context) error {
	var left []string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		left = nil
		for _, resource := range emptied() {
			if resource.Resource == "events" {
				continue
			}
			objects, err := c.surplus(ctx, resource)
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
	})
	if err != nil {
		return fmt.Errorf("emptying the cluster: %w; left: %s", err, strings.Join(left, ", "))
	}
	return nil
}
