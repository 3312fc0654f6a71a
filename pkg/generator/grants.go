package generator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// grants are the permissions that an operator needs in one namespace, or for objects without a
// namespace, to maintain operands.
type grants struct {
	named map[permission]sets.Set[string] // the names of the objects
	all   map[permission]bool             // requests that do not name an object
	held  []rbacv1.PolicyRule             // rules of the Roles that the operator writes
}

// permission is the permission to send requests with some verbs for a resource.
type permission struct {
	group, resource string
	verbs           string // separated by spaces
}

func (g *grants) name(p permission, name string) {
	if g.named == nil {
		g.named = map[permission]sets.Set[string]{}
	}
	if g.named[p] == nil {
		g.named[p] = sets.New[string]()
	}
	g.named[p].Insert(name)
}

// rules returns the permissions in a stable order, without duplicates.
func (g *grants) rules() []rbacv1.PolicyRule {
	rules := slices.Clone(g.held)
	for p, names := range g.named {
		rules = append(rules, p.rule(sets.List(names)))
	}
	for p := range g.all {
		rules = append(rules, p.rule(nil))
	}
	slices.SortFunc(rules, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources),
			slices.Compare(a.ResourceNames, b.ResourceNames), slices.Compare(a.Verbs, b.Verbs))
	})
	return slices.CompactFunc(rules, equalRules)
}

func equalRules(a, b rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(a, b) }

func (p permission) rule(names []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{p.group}, Resources: []string{p.resource}, ResourceNames: names,
		Verbs: strings.Fields(p.verbs),
	}
}

// addGrants adds the permissions to maintain the operands to the operator's Roles. An operand in a
// namespace without such a Role is an error. On HyperShift the operator has a kubeconfig of the
// guest cluster, and needs no Role there.
func (i *installation) addGrants() error {
	needed, err := i.neededGrants()
	if err != nil {
		return err
	}
	var errs []error
	hasGrants := false
	for _, asset := range i.sorted() { // two Roles may be in one namespace
		if !asset.grants {
			continue
		}
		hasGrants = true
		namespace := asset.object.GetNamespace()
		errs = append(errs, i.addRules(asset, in(needed, namespace).rules()))
		delete(needed, namespace)
	}
	for namespace := range needed {
		if hasGrants {
			errs = append(errs, i.driver.source(installPart).errorf(
				"no Role of the operator has grants for operands in namespace %q", namespace))
		}
	}
	return errors.Join(errs...)
}

// addRules adds the rules that a Role does not contain yet.
func (i *installation) addRules(role *asset, rules []rbacv1.PolicyRule) error {
	present := rulesOf(role)
	var values []any
	for _, rule := range rules {
		same := func(r rbacv1.PolicyRule) bool { return equalRules(r, rule) }
		if slices.ContainsFunc(present, same) {
			continue
		}
		value, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rule)
		if err != nil {
			return position.ErrorAt(role.at, "encoding a rule: %w", err)
		}
		values = append(values, value)
	}
	return i.appendTo(role, role.layers[len(role.layers)-1], "/rules/-", values...)
}

func rulesOf(asset *asset) []rbacv1.PolicyRule {
	switch object := asset.object.(type) {
	case *rbacv1.Role:
		return object.Rules
	case *rbacv1.ClusterRole:
		return object.Rules
	}
	return nil
}

func (i *installation) neededGrants() (map[string]*grants, error) {
	needed := map[string]*grants{}
	for _, a := range i.operands {
		for _, asset := range a.assets {
			if i.inOwnCluster(asset.Side) {
				named, all := verbs(asset.Role)
				i.grantAsset(needed, asset, named, all)
			}
		}
		i.grantCSIAddons(needed, a)
	}
	return needed, i.grantLeftovers(needed)
}

// grantCSIAddons adds the permissions to watch the CRD of CSI-Addons, and to create and delete the
// operands for it.
func (i *installation) grantCSIAddons(needed map[string]*grants, a *assembly) {
	if a.withCSIAddons == nil {
		return
	}
	if i.inOwnCluster(flavour.Guest) {
		in(needed, "").name(watchCRD(), bundle.CSIAddonsCRD)
	}
	for name, asset := range a.csiAddonsAssets() {
		named, all := verbs(asset.Role)
		if a.assets[name] == nil {
			named = "get update delete" // without a watch
		}
		if i.inOwnCluster(asset.Side) {
			i.grantAsset(needed, asset, named, all)
		}
	}
}

func watchCRD() permission {
	return permission{"apiextensions.k8s.io", "customresourcedefinitions", "list watch"}
}

// inOwnCluster reports whether the objects of a side are in the cluster in which the operator runs.
func (i *installation) inOwnCluster(side flavour.Side) bool {
	return !i.flavour.Hosted() || side == flavour.ControlPlane
}

func (i *installation) grantLeftovers(needed map[string]*grants) error {
	driver := i.driver.content.nameIn(i.flavour)
	generations, err := legacy.Generations(driver, i.flavour, i.values[bundle.Namespace])
	if err != nil {
		return fmt.Errorf("reading what earlier releases of %s left: %w", driver, err)
	}
	for _, leftover := range legacy.Leftovers(generations) {
		if !i.inOwnCluster(leftover.Side) {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(leftover.GroupVersionKind())
		in(needed, leftover.GetNamespace()).
			name(permission{resource.Group, resource.Resource, "get delete"}, leftover.GetName())
	}
	return nil
}

func (i *installation) isOperand(kind, name string) bool {
	for _, a := range i.operands {
		for _, asset := range cmp.Or(a.withCSIAddons, a).assets {
			if asset.kind() == kind && asset.object.GetName() == name {
				return true
			}
		}
	}
	return false
}

// grantAsset adds the permissions to maintain an asset: the verbs named for its name, and the verbs
// all for requests without a name.
func (i *installation) grantAsset(needed map[string]*grants, asset *asset, named, all string) {
	namespace := strings.NewReplacer(
		"${"+bundle.Namespace+"}", i.values[bundle.Namespace],
		"${"+bundle.NodeNamespace+"}", i.values[bundle.NodeNamespace],
		"${"+bundle.OperatorNamespace+"}", i.values[bundle.OperatorNamespace],
	).Replace(asset.object.GetNamespace())
	kind := asset.object.GetObjectKind().GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	g := in(needed, namespace)
	g.name(permission{resource.Group, resource.Resource, named}, asset.object.GetName())
	g.all[permission{resource.Group, resource.Resource, all}] = true
	if asset.Role == bundle.SnapshotClass {
		// The operator reports VolumeSnapshots that no snapshot controller has processed.
		in(needed, "").all[permission{resource.Group, "volumesnapshots", "list"}] = true
	}
	switch asset.Role {
	case bundle.NodeWorkload: // pods that it cannot create
		g.all[permission{"", "events", "list"}] = true
		fallthrough
	case bundle.ControllerWorkload: // pods that do not run
		g.all[permission{"", "pods", "list"}] = true
	case bundle.OperatorMonitor:
		g.name(permission{"", "services", "list watch"}, i.part.Name+"-metrics")
		fallthrough
	case bundle.SnapshotClass, bundle.ServiceMonitor:
		in(needed, "").name(watchCRD(), resource.GroupResource().String())
	}
	g.held = append(g.held, rulesOf(asset)...)
	switch object := asset.object.(type) {
	case *rbacv1.RoleBinding:
		i.grantBind(g, object.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		i.grantBind(g, object.RoleRef)
	}
}

func in(needed map[string]*grants, namespace string) *grants {
	if needed[namespace] == nil {
		needed[namespace] = &grants{all: map[permission]bool{}}
	}
	return needed[namespace]
}

// verbs returns the verbs that an operator needs for an asset of a role: named for requests with
// the name of the object, all for requests without a name. RBAC can restrict list and watch to one
// name. The operator watches all StorageClasses. It has no informers for optional CRDs.
func verbs(role bundle.Role) (named, all string) {
	switch role {
	case bundle.StorageClass:
		return "get update delete", "create list watch"
	case bundle.CSIDriver:
		return "get list watch update delete", "create"
	case bundle.SnapshotClass, bundle.ServiceMonitor, bundle.OperatorMonitor:
		return "get update", "create"
	}
	return "get list watch update", "create"
}

// grantBind adds the permission to bind a Role that is not an operand. The operator needs no such
// permission for Roles that are operands, because it has their rules.
func (i *installation) grantBind(g *grants, role rbacv1.RoleRef) {
	if i.isOperand(role.Kind, role.Name) {
		return
	}
	resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{
		Group: role.APIGroup, Version: "v1", Kind: role.Kind,
	})
	g.name(permission{resource.Group, resource.Resource, "bind"}, role.Name)
}
