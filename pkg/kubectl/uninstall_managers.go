package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// manager may create objects again.
type manager struct {
	// mark is the label or annotation with its name, prefix that of its namespace, "" without one.
	mark, prefix string
	// command ends it, before its name.
	command string
	// definition is that of its objects, "" without one.
	definition string
}

// managers returns those that may have made an object.
func (u *uninstallation) managers(o *object) []manager {
	const kustomize, flux = "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io"
	helm := "helm uninstall"
	if !u.all {
		helm = "helm upgrade --set=" + strings.ToLower(u.of[0].title) + ".enabled=false"
	}
	return []manager{
		{
			kustomize + "/name", kustomize + "/", "flux delete kustomization",
			"kustomizations." + kustomize,
		},
		{flux + "/name", flux + "/", "flux delete helmrelease", "helmreleases." + flux},
		{"argocd.argoproj.io/tracking-id", "", "argocd app delete", "applications.argoproj.io"},
		{releaseName, "meta.helm.sh/release-", helm, ""},
		{"olm.owner", "", "kubectl delete subscription " + o.Name + ", and csv", ""},
	}
}

// undoing is what to do before objects are deleted: the command that ends who would create them
// again, "" if nobody would, and the one that removes its marks from what it has left.
type undoing struct{ end, verb, change string }

// undoing returns what to do before an object is deleted.
func (u *uninstallation) undoing(ctx context.Context, o *object) undoing {
	of := func(mark string) string { return cmp.Or(o.Labels[mark], o.Annotations[mark]) }
	if of("helm.sh/resource-policy") == "keep" ||
		of("kustomize.toolkit.fluxcd.io/prune") == "disabled" ||
		strings.Contains(of("argocd.argoproj.io/sync-options"), "Delete=false") {
		return undoing{}
	}
	// Users may write any text into a mark, and people run the command: nobody has such a name.
	isName := func(text string) bool {
		return len(validation.IsDNS1123Subdomain(strings.ReplaceAll(text, "_", "."))) == 0
	}
	for _, by := range u.managers(o) {
		name, _, _ := strings.Cut(of(by.mark), ":") // the ID of Argo CD continues with the object
		namespace := of(by.prefix + "namespace")
		isLeft := o.Kind == definition && strings.Contains(by.mark, "helm")
		if !isName(name) || !isName(cmp.Or(namespace, name)) || isLeft ||
			u.isGone(ctx, by, namespace, name) {
			continue
		}
		verb, selector := "annotate", partLabel+"="+partOf
		if o.Labels[by.mark] != "" {
			verb = "label"
		}
		if o.Labels[partLabel] == "" { // OLM does not set it
			selector = by.mark + "=" + name
		}
		if namespace != "" {
			name += " --namespace=" + namespace
		}
		return undoing{
			by.command + " " + name, verb, "--all-namespaces --selector=" + selector + " " + by.mark + "-",
		}
	}
	return undoing{}
}

// isGone returns whether a manager certainly does not exist any more.
func (u *uninstallation) isGone(ctx context.Context, by manager, namespace, name string) bool {
	id := fmt.Sprintf("%s %s/%s", by.mark, namespace, name)
	if _, known := u.gone[id]; !known {
		switch {
		case by.mark == releaseName:
			u.gone[id] = u.hasNoRelease(ctx, namespace, name)
		case by.definition != "":
			u.gone[id] = u.hasNoObject(ctx, by, namespace, name)
		}
	}
	return u.gone[id]
}

// hasNoRelease returns whether Helm has no record of a release, or only those of an ended one.
func (u *uninstallation) hasNoRelease(ctx context.Context, namespace, name string) bool {
	var records []object
	for _, kind := range []string{"Secret", "ConfigMap"} {
		list := listOf(schema.GroupVersionKind{Version: "v1", Kind: kind})
		if u.guest.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{
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

// hasNoObject returns whether a cluster contains no object of a manager with a name. Argo CD may be
// in another cluster, and its mark names no namespace.
func (u *uninstallation) hasNoObject(
	ctx context.Context, by manager, namespace, name string,
) bool {
	var crd apiextensionsv1.CustomResourceDefinition
	err := u.guest.Get(ctx, client.ObjectKey{Name: by.definition}, &crd)
	if err != nil {
		return apierrors.IsNotFound(err) && namespace != ""
	}
	kind := schema.GroupVersionKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
	for _, v := range crd.Spec.Versions {
		if v.Served {
			kind.Version = v.Name
		}
	}
	u.guest.RESTMapper().(*meta.DefaultRESTMapper).Add(kind, meta.RESTScopeNamespace)
	list := listOf(kind)
	if u.guest.List(ctx, list, client.InNamespace(namespace)) != nil {
		return false
	}
	// An Application outside the namespace of Argo CD is marked as NAMESPACE_NAME.
	return !slices.ContainsFunc(list.Items, func(o metav1.PartialObjectMetadata) bool {
		return o.Name == name || o.Namespace+"_"+o.Name == name
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
