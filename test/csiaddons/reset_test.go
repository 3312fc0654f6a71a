//go:build integration

package csiaddons

import (
	"context"
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
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
)

// anyObject is an object of any kind.
type anyObject struct {
	unstructured.Unstructured

	resource schema.GroupVersionResource
}

func (o *anyObject) String() string {
	return o.resource.GroupResource().String() + " " + o.GetNamespace() + "/" + o.GetName()
}

func (o *anyObject) isNamespace() bool { return o.resource == namespaceResource() }
func (o *anyObject) isCRD() bool       { return o.resource.Resource == "customresourcedefinitions" }

func namespaceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// reset deletes what tests have created, and waits until it is gone.
func (c *cluster) reset(ctx context.Context) error {
	var left []*anyObject
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) {
			var err error
			left, err = c.added(ctx)
			if err != nil || len(left) == 0 {
				return err == nil, err
			}
			return false, c.remove(ctx, left)
		})
	if err == nil { // a test annotates this namespace
		_, err = c.dynamic.Resource(namespaceResource()).Patch(ctx, metav1.NamespaceDefault,
			types.MergePatchType, []byte(`{"metadata": {"annotations": null}}`), metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("resetting a cluster: %w; left: %v", err, left)
	}
	return nil
}

// added returns the objects that are not in the baseline and that Kubernetes did not create.
func (c *cluster) added(ctx context.Context) ([]*anyObject, error) {
	served, err := discovery.ServerPreferredResources(c.plane.Client().Discovery())
	if err != nil {
		return nil, fmt.Errorf("listing resources: %w", err)
	}
	resources, err := discovery.GroupVersionResources(
		discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, served))
	if err != nil {
		return nil, err
	}
	var added []*anyObject
	for resource := range resources {
		switch resource.Group {
		case "events.k8s.io", "apiregistration.k8s.io": // the core group has the events, CRDs the APIs
			continue
		}
		list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) { // a CRD is deleted
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		for _, item := range list.Items {
			one := &anyObject{item, resource}
			if !c.baseline[one.String()] && !strings.HasPrefix(item.GetNamespace(), "kube-") &&
				one.String() != "configmaps default/kube-root-ca.crt" &&
				one.String() != "serviceaccounts default/default" {
				added = append(added, one)
			}
		}
	}
	return added, nil
}

// remove deletes objects, and on a second call their finalizers. Namespaces and CRDs go when
// nothing else is left: Kubernetes would wait for seconds before it deletes their contents.
func (c *cluster) remove(ctx context.Context, objects []*anyObject) error {
	contents := slices.ContainsFunc(objects, func(o *anyObject) bool {
		return !o.isNamespace() && !o.isCRD()
	})
	for _, one := range objects {
		in := c.dynamic.Resource(one.resource).Namespace(one.GetNamespace())
		var err error
		switch deleted := one.GetDeletionTimestamp() != nil; {
		case one.isCRD() && (contents || deleted), one.isNamespace() && contents && deleted:
		case !deleted: // nobody can create objects in a deleted namespace
			err = in.Delete(ctx, one.GetName(), metav1.DeleteOptions{
				GracePeriodSeconds: ptr.To[int64](0),
				PropagationPolicy:  ptr.To(metav1.DeletePropagationBackground),
			})
		case one.isNamespace():
			unstructured.RemoveNestedField(one.Object, "spec", "finalizers")
			_, err = in.Update(ctx, &one.Unstructured, metav1.UpdateOptions{}, "finalize")
		default:
			_, err = in.Patch(ctx, one.GetName(), types.MergePatchType,
				[]byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("removing %s: %w", one, err)
		}
	}
	return nil
}
