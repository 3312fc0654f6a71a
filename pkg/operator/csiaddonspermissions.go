package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// permission is the permission for requests with some verbs for a resource.
type permission struct {
	schema.GroupResource

	// namespace is "" for objects without a namespace, and for those of all namespaces.
	namespace string
	// name is "" for all objects.
	name  string
	verbs []string
}

// String returns the permission for messages.
func (p permission) String() string {
	text := strings.Join(p.verbs, ", ") + " " + p.GroupResource.String()
	if p.name != "" {
		text += " " + p.name
	}
	if p.namespace != "" {
		text += " in namespace " + p.namespace
	}
	return text
}

// csiAddonsPermissions returns the permissions that the operator needs for CSI-Addons: to watch the
// CRD, to write the objects that exist only with it, and what the Roles among them contain.
func (d *driver) csiAddonsPermissions() ([]permission, error) {
	needed := []permission{{
		GroupResource: schema.GroupResource{
			Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions",
		},
		name: d.csiAddons.crd.name, verbs: []string{"list", "watch"},
	}}
	for _, asset := range d.csiAddonsAssets() {
		object, err := metadata(asset)
		if err != nil {
			return nil, err
		}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		create := permission{
			GroupResource: resource.GroupResource(), namespace: object.Namespace,
			verbs: []string{"create"},
		}
		maintain := create
		maintain.name = object.Name
		maintain.verbs = []string{"get", "list", "watch", "update", "delete"}
		held, err := permissionsOf(asset, object.Namespace)
		if err != nil {
			return nil, err
		}
		needed = append(append(needed, create, maintain), held...)
	}
	return needed, nil
}

// permissionsOf returns what a Role or a ClusterRole grants, and none for other objects. The API
// server refuses a role with a permission that its writer lacks.
func permissionsOf(asset bundle.Asset, namespace string) ([]permission, error) {
	var role rbacv1.Role
	if err := yaml.Unmarshal(asset.Data, &role); err != nil {
		return nil, fmt.Errorf("decoding asset %q: %w", asset.Name, err)
	}
	var held []permission
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				held = append(held, permission{
					GroupResource: schema.GroupResource{Group: group, Resource: resource},
					namespace:     namespace, verbs: rule.Verbs,
				})
			}
		}
	}
	return held, nil
}

// missingPermissions returns which of the permissions the operator lacks, sorted.
func (d *driver) missingPermissions(
	ctx context.Context, needed []permission,
) ([]string, error) {
	reviews := d.cluster.Side(flavour.Guest).Kube.AuthorizationV1().SelfSubjectRulesReviews()
	held := map[string][]authorizationv1.ResourceRule{}
	var missing []string
	for _, p := range needed {
		if _, known := held[p.namespace]; !known {
			review := &authorizationv1.SelfSubjectRulesReview{}
			// There is no review of all namespaces. The operator has no Role in this one.
			review.Spec.Namespace = cmp.Or(p.namespace, metav1.NamespaceDefault)
			review, err := reviews.Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return nil, fmt.Errorf("reviewing the permissions of the operator: %w", err)
			}
			held[p.namespace] = review.Status.ResourceRules
		}
		p.verbs = slices.DeleteFunc(slices.Clone(p.verbs), func(verb string) bool {
			return slices.ContainsFunc(held[p.namespace], func(rule authorizationv1.ResourceRule) bool {
				return allows(rule, p, verb)
			})
		})
		if len(p.verbs) > 0 {
			missing = append(missing, p.String())
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing), nil
}

// allows reports whether a rule allows the requests of a permission with one of its verbs.
func allows(rule authorizationv1.ResourceRule, p permission, verb string) bool {
	contains := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, rbacv1.ResourceAll)
	}
	return contains(rule.Verbs, verb) && contains(rule.APIGroups, p.Group) &&
		contains(rule.Resources, p.Resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, p.name))
}
