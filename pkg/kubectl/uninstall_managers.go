package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// undoing is what to do before objects are deleted: the command that ends who would create them
// again, "" if nobody would, and the one that removes its marks from what it has left.
type undoing struct{ end, verb, change string }

// undoing returns what to do before an object is deleted.
func (u *uninstallation) undoing(ctx context.Context, o *object) undoing {
	marks := labels.Merge(o.Annotations, o.Labels)
	if marks["helm.sh/resource-policy"] == "keep" || marks[kustomization+"/prune"] == "disabled" ||
		strings.Contains(marks["argocd.argoproj.io/sync-options"], "Delete=false") {
		return undoing{}
	}
	for _, by := range ownersOf(o) {
		if o.Kind == definition && strings.Contains(by.mark, "helm") || u.isGone(ctx, by) {
			continue
		}
		verb, selector := "annotate", partLabel+"="+partOf
		if o.Labels[by.mark] != "" {
			verb = "label"
		}
		if o.Labels[partLabel] == "" { // OLM does not set it
			selector = by.mark + "=" + by.name
		}
		pack, _, _ := strings.Cut(by.name, ".") // before the version
		end := strings.Replace(by.end, "PACKAGE", pack, 1)
		if by.mark == releaseName && !u.all {
			end = "helm upgrade --set=" + strings.ToLower(u.of[0].title) + ".enabled=false %s"
		}
		return undoing{
			by.command(end), verb, "--all-namespaces --selector=" + selector + " " + by.mark + "-",
		}
	}
	return undoing{}
}

// isGone returns whether the object of an owner certainly does not exist any more.
func (u *uninstallation) isGone(ctx context.Context, by owner) bool {
	if _, known := u.gone[by]; !known {
		switch {
		case by.mark == releaseName:
			u.gone[by] = u.hasNoRelease(ctx, by.namespace, by.name)
		case by.definition != "":
			u.gone[by] = u.hasNoObject(ctx, by)
		}
	}
	return u.gone[by]
}

// hasNoRelease returns whether Helm has no record of a release, or only those of an ended one.
func (s *session) hasNoRelease(ctx context.Context, namespace, name string) bool {
	var records []object
	for _, kind := range []string{"Secret", "ConfigMap"} {
		list := listOf(schema.GroupVersionKind{Version: "v1", Kind: kind})
		if s.guest.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{
			"owner": "helm", "name": name,
		}) != nil {
			return false
		}
		records = append(records, list.Items...)
	}
	return !slices.ContainsFunc(records, func(o object) bool {
		return !slices.Contains([]string{"uninstalled", "superseded"}, o.Labels["status"])
	})
}

// hasNoObject returns whether a cluster does not contain the object of an owner. Argo CD may be in
// another cluster, and its mark names no namespace.
func (u *uninstallation) hasNoObject(ctx context.Context, by owner) bool {
	var crd apiextensionsv1.CustomResourceDefinition
	err := u.guest.Get(ctx, client.ObjectKey{Name: by.definition}, &crd)
	if err != nil {
		return apierrors.IsNotFound(err) && by.namespace != ""
	}
	kind := schema.GroupVersionKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
	for _, v := range crd.Spec.Versions {
		if v.Served {
			kind.Version = v.Name
		}
	}
	u.guest.RESTMapper().(*meta.DefaultRESTMapper).Add(kind, meta.RESTScopeNamespace)
	list := listOf(kind)
	if u.guest.List(ctx, list, client.InNamespace(by.namespace)) != nil {
		return false
	}
	// An Application outside the namespace of Argo CD is marked as NAMESPACE_NAME.
	return !slices.ContainsFunc(list.Items, func(o metav1.PartialObjectMetadata) bool {
		return o.Name == by.name || o.Namespace+"_"+o.Name == by.name
	})
}

// recreated says which objects would be created again, and what to do.
func (u undoing) recreated(objects []string) error {
	var kinds []string
	for _, o := range objects {
		kind, _, _ := strings.Cut(o, " ")
		kinds = append(kinds, strings.ToLower(kind))
	}
	slices.Sort(kinds)
	return fmt.Errorf("%s would be created again. Run first: %s. If that has ended already, run: "+
		"kubectl %s %s %s", diagnosis.List(objects), u.end, u.verb,
		strings.Join(slices.Compact(kinds), ","), u.change)
}
