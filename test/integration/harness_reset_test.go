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
		hostedControlPlanes(),
		{Version: "v1", Resource: "events"},
	}
}

// place is where objects of a resource are; namespace "" is all of them, or none.
type place struct {
	resource  schema.GroupVersionResource
	namespace string
}

// configuration is what describes a cluster.
func configuration() []place {
	return []place{
		{configResource("infrastructures"), ""},
		{configResource("proxies"), ""},
		{configResource("apiservers"), ""},
		{resource("operator.openshift.io", "storages"), ""},
	}
}

func clusterCSIDrivers() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "operator.openshift.io", Version: "v1", Resource: "clustercsidrivers"}
}

// baseline is the cluster as the devcluster made it.
type baseline struct {
	present map[schema.GroupVersionResource]map[string]bool
	content map[place][]unstructured.Unstructured
}

func key(o unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

// list returns no objects of a resource that the cluster does not have.
func (s *side) list(ctx context.Context, p place) ([]unstructured.Unstructured, error) {
	list, err := s.dynamic.Resource(p.resource).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", p.resource.Resource, err)
	}
	return list.Items, nil
}

func (s *side) takeBaseline(ctx context.Context) (baseline, error) {
	b := baseline{map[schema.GroupVersionResource]map[string]bool{}, map[place][]unstructured.Unstructured{}}
	for _, resource := range emptied() {
		b.present[resource] = map[string]bool{}
		objects, err := s.list(ctx, place{resource, ""})
		if err != nil {
			return b, err
		}
		for _, object := range objects {
			b.present[resource][key(object)] = true
		}
	}
	for _, p := range append(s.restored, place{clusterCSIDrivers(), ""}) {
		objects, err := s.list(ctx, p)
		if err != nil {
			return b, err
		}
		b.content[p] = objects
	}
	return b, nil
}

// reset makes the clusters what they were at the beginning.
func (c *devcluster) reset(ctx context.Context) error {
	var errs []error
	for _, s := range c.sides() {
		errs = append(errs, s.reset(ctx))
	}
	return errors.Join(errs...)
}

func (s *side) reset(ctx context.Context) error {
	for _, resource := range emptied() {
		if err := s.empty(ctx, resource); err != nil {
			return err
		}
	}
	for _, p := range s.restored {
		if err := s.restore(ctx, p); err != nil {
			return err
		}
	}
	if err := s.renewDriver(ctx); err != nil {
		return err
	}
	return s.awaitEmpty(ctx)
}

// surplus are the objects that were not there at the beginning and do not come by themselves.
func (s *side) surplus(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	objects, err := s.list(ctx, place{resource, ""})
	return slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool {
		return s.baseline.present[resource][key(o)] || strings.HasPrefix(o.GetNamespace(), "kube-") ||
			resource.Resource == "configmaps" && o.GetName() == "kube-root-ca.crt" ||
			resource.Resource == "serviceaccounts" && o.GetName() == "default"
	}), err
}

func (s *side) empty(ctx context.Context, resource schema.GroupVersionResource) error {
	if resource.Resource == "events" {
		return s.dynamic.Resource(resource).Namespace(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	objects, err := s.surplus(ctx, resource)
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range objects {
		errs = append(errs, s.remove(ctx, resource, object))
	}
	return errors.Join(errs...)
}

// remove deletes an object at once, whatever finalizers it has.
func (s *side) remove(ctx context.Context, resource schema.GroupVersionResource, object unstructured.Unstructured) error {
	client := s.dynamic.Resource(resource).Namespace(object.GetNamespace())
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
func (s *side) restore(ctx context.Context, p place) error {
	client := s.dynamic.Resource(p.resource).Namespace(p.namespace)
	for _, first := range s.baseline.content[p] {
		now, err := client.Get(ctx, first.GetName(), metav1.GetOptions{})
		if err == nil && now.GetDeletionTimestamp() != nil {
			if err := s.remove(ctx, p.resource, *now); err != nil {
				return err
			}
			now, err = client.Get(ctx, first.GetName(), metav1.GetOptions{})
		}
		switch {
		case apierrors.IsNotFound(err):
			now, err = s.create(ctx, p.resource, first)
		case err == nil && now.GetResourceVersion() != first.GetResourceVersion():
			wanted := first.DeepCopy()
			wanted.SetUID(now.GetUID())
			wanted.SetResourceVersion(now.GetResourceVersion())
			now, err = client.Update(ctx, wanted, metav1.UpdateOptions{})
		}
		if err == nil {
			err = s.restoreStatus(ctx, p, first, now)
		}
		if err != nil {
			return fmt.Errorf("restoring %s %q: %w", p.resource.Resource, key(first), err)
		}
	}
	return nil
}

// restoreStatus does so where nobody else but tests writes it.
func (s *side) restoreStatus(ctx context.Context, p place, first unstructured.Unstructured, now *unstructured.Unstructured) error {
	none := first.Object["status"] == nil
	if !strings.HasSuffix(p.resource.Group, ".openshift.io") || none && now.Object["status"] == nil {
		return nil
	}
	wanted := now.DeepCopy()
	wanted.Object["status"] = first.Object["status"]
	if none {
		wanted.Object["status"] = map[string]any{}
	}
	_, err := s.dynamic.Resource(p.resource).Namespace(p.namespace).UpdateStatus(ctx, wanted, metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

func (s *side) create(ctx context.Context, resource schema.GroupVersionResource, first unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object := first.DeepCopy()
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	return s.dynamic.Resource(resource).Namespace(first.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
}

// renewDriver replaces the ClusterCSIDriver by a new one, without status.
func (s *side) renewDriver(ctx context.Context) error {
	drivers := place{clusterCSIDrivers(), ""}
	objects, err := s.list(ctx, drivers)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := s.remove(ctx, drivers.resource, object); err != nil {
			return err
		}
	}
	for _, first := range s.baseline.content[drivers] {
		if _, err := s.create(ctx, drivers.resource, first); err != nil {
			return fmt.Errorf("creating ClusterCSIDriver %q: %w", first.GetName(), err)
		}
	}
	return nil
}

// awaitEmpty waits until deleted objects are gone and nothing that they owned comes back.
func (s *side) awaitEmpty(ctx context.Context) error {
	var left []string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		left = nil
		for _, resource := range emptied() {
			if resource.Resource == "events" {
				continue
			}
			objects, err := s.surplus(ctx, resource)
			if err != nil {
				return false, err
			}
			for _, object := range objects {
				left = append(left, resource.Resource+" "+key(object))
				if err := s.remove(ctx, resource, object); err != nil {
					return false, err
				}
			}
		}
		return len(left) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("emptying the %s cluster: %w; left: %s", s.name, err, strings.Join(left, ", "))
	}
	return nil
}
