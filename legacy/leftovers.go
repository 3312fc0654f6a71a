package legacy

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// StaleConditions returns the types of the conditions that no controller writes any more, sorted.
func StaleConditions(generations []Generation) []string {
	var types []string
	for _, g := range generations {
		types = append(types, g.Conditions.Stale...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// Leftover is an RBAC object or a Service of earlier generations that no operator owns any more.
type Leftover struct {
	Object

	// contents are the contents that the generations gave the object.
	contents []map[string]any
}

// Leftovers returns the leftovers of the generations. Bindings precede the roles to which they
// refer, and Services are the last. There are no others: volumes depend on StorageClasses, Secrets
// and the CSIDriver.
func Leftovers(generations []Generation) []Leftover {
	var leftovers []Leftover
	for _, kind := range []string{
		"ClusterRoleBinding", "RoleBinding", "ClusterRole", "Role", "Service",
	} {
		var ofKind []Leftover
		for _, g := range generations {
			for _, o := range g.Leftovers {
				if o.GetKind() == kind {
					ofKind = add(ofKind, o)
				}
			}
		}
		leftovers = append(leftovers, ofKind...)
	}
	return leftovers
}

// add adds an object to the leftovers of its kind. If the object is among them already, add adds
// only its content.
func add(leftovers []Leftover, o Object) []Leftover {
	i := slices.IndexFunc(leftovers, func(l Leftover) bool {
		return l.Side == o.Side && l.GetNamespace() == o.GetNamespace() && l.GetName() == o.GetName()
	})
	if i < 0 {
		return append(leftovers, Leftover{o, []map[string]any{content(o.Unstructured)}})
	}
	leftovers[i].contents = append(leftovers[i].contents, content(o.Unstructured))
	return leftovers
}

// Unchanged reports whether the object in the cluster has the content that a generation gave it. It
// does not compare metadata.
func (l Leftover) Unchanged(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(l.contents, func(c map[string]any) bool {
		return equality.Semantic.DeepEqual(c, content(live))
	})
}

// content returns the rules of a role, the subjects and the role of a binding, or the selector of a
// Service. The ports of a Service differ between releases.
func content(o *unstructured.Unstructured) map[string]any {
	if o.GetKind() == "Service" {
		selector, _, _ := unstructured.NestedMap(o.Object, "spec", "selector")
		return selector
	}
	fields := maps.Clone(o.Object)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(fields, name)
	}
	return fields
}
