package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

const definition = "CustomResourceDefinition"

// removedKinds returns the kinds of an installation in the order of its removal. Without
// StorageClasses nobody creates volumes, and without the CSIDriver no node mounts another share.
// The node plugins end before the controller, which detaches what a node has attached meanwhile.
// The status of the objects that configure operators names the namespace of the Leases, so they
// stay longer. Definitions and namespaces come last.
func removedKinds() (all []schema.GroupVersionKind) {
	for _, line := range []string{
		"storage.k8s.io/v1 StorageClass", "snapshot.storage.k8s.io/v1 VolumeSnapshotClass",
		"storage.k8s.io/v1 CSIDriver", "apps/v1 DaemonSet Deployment", "coordination.k8s.io/v1 Lease",
		"monitoring.coreos.com/v1 ServiceMonitor PrometheusRule", "policy/v1 PodDisruptionBudget",
		"networking.k8s.io/v1 NetworkPolicy", "v1 Service ConfigMap Secret ServiceAccount",
		"rbac.authorization.k8s.io/v1 RoleBinding Role ClusterRoleBinding ClusterRole",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding ValidatingAdmissionPolicy",
		"csi.openstack.org/v1alpha1 ManilaDriver CinderDriver",
		"apiextensions.k8s.io/v1 " + definition, "v1 Namespace",
	} {
		version, kinds, _ := strings.Cut(line, " ")
		for kind := range strings.FieldsSeq(kinds) {
			all = append(all, schema.FromAPIVersionAndKind(version, kind))
		}
	}
	return all
}

// neededKinds returns the kinds without which volumes cannot be mounted, unmounted or detached.
func neededKinds() []string { return []string{"CSIDriver", "DaemonSet", deployment} }

func deployments() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind(deployment)
}

// count remembers what claims and PersistentVolumes name.
func (u *uninstallation) count(ctx context.Context) {
	visit(ctx, u.guest, &corev1.PersistentVolumeClaimList{}, func(c *corev1.PersistentVolumeClaim) {
		if c.DeletionTimestamp == nil {
			u.claims[ptr.Deref(c.Spec.StorageClassName, "")]++
		}
	})
	visit(ctx, u.guest, &corev1.PersistentVolumeList{}, func(v *corev1.PersistentVolume) {
		if slices.ContainsFunc(u.of, func(d driver) bool { return d.name == driverOf(v) }) {
			u.secrets.add(v)
		}
	})
}

// isKept says why an object of the installation stays, if it does.
func (u *uninstallation) isKept(ctx context.Context, o object) bool {
	var because string
	switch o.Kind {
	case "StorageClass":
		if n := u.claims[o.Name]; n > 0 {
			because = fmt.Sprintf("%d claims name it, and grow only while it exists", n)
		}
	case "Secret":
		if n := u.secrets[o.Namespace+"/"+o.Name]; n > 0 {
			because = fmt.Sprintf("%d PersistentVolumes name it in namespace %s, and cannot be mounted "+
				"without it. If you install the driver in another namespace, it does not update this one", n,
				o.Namespace)
		}
	case definition:
		if resource, _, _ := strings.Cut(o.Name, "."); u.unread[resource] != "" {
			because = "there is " + u.unread[resource]
		}
	case "Namespace":
		left, err := u.others(ctx, o.Name)
		if hidden := u.notVisible(); err != nil || len(hidden) > 0 {
			left = []string{fmt.Sprint("what cannot be read: ", hidden, err)}
		}
		namespace := find(ctx, u.guest, "", o.Name, &corev1.Namespace{})
		if namespace != nil && namespace.DeletionTimestamp != nil && len(left) > 0 {
			because = u.terminating(namespace)
		} else if len(left) > 0 {
			because = fmt.Sprintf("it contains %s. If nobody needs that, run: kubectl delete namespace %s",
				diagnosis.List(left), o.Name)
		}
	}
	if because != "" {
		fmt.Fprintln(u.Out, wrap("", o.Kind+" "+o.Name+" stays: "+because, 0))
	}
	return because != ""
}

// nameLogins says which Secrets with the credentials stay, and why.
func (u *uninstallation) nameLogins(ctx context.Context) {
	named := map[string]bool{}
	for _, d := range u.of {
		secret := &object{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}}
		name := d.namespace + "/" + d.credentials
		if named[name] || find(ctx, u.guest, d.namespace, d.credentials, secret) == nil {
			continue
		}
		named[name] = true
		fmt.Fprintln(u.Out, wrap("", fmt.Sprintf("Secret %s stays: it contains the login to OpenStack, "+
			"which belongs to whoever wrote it. If nothing else uses it, run: kubectl delete secret %s "+
			"--namespace=%s", name, d.credentials, d.namespace), 0))
	}
}

// stopped returns why an object was not deleted, what to do, and what was deleted before.
func (u *uninstallation) stopped(o object, err error) error {
	m := meaning.Of(fault.Parse(err.Error()))
	means := strings.TrimLeft(m.Stops+". "+m.Next, ". ")
	if means != "" {
		means = strings.TrimSuffix(means, ". ") + ". "
	}
	return fmt.Errorf("deleting %s %s: %w. %sDeleted before: %s. Run the command again %s", o.Kind,
		o.Name, err, means, cmp.Or(diagnosis.List(u.deleted), "nothing"), u.again)
}

// others returns the objects in a namespace that are neither of the installation or of Kubernetes,
// nor belong to another object.
func (u *uninstallation) others(ctx context.Context, namespace string) (names []string, _ error) {
	ignored := []string{
		"ConfigMap kube-root-ca.crt", "ServiceAccount default", "Event", "Lease", "Endpoints",
	}
	kinds, err := u.guest.addKinds()
	for _, kind := range kinds {
		visit(ctx, u.guest, listOf(kind), func(o *object) {
			o.SetGroupVersionKind(kind)
			isOurs := o.Labels[partLabel] == partOf && u.owns(o) && slices.Contains(removedKinds(), kind)
			name, n := o.Kind+" "+o.Name, u.secrets[namespace+"/"+o.Name]
			if o.Kind == "Secret" && n > 0 {
				names = slices.Insert(names, 0, fmt.Sprintf("%s (%d PersistentVolumes name it)", name, n))
			} else if !isOurs && len(o.OwnerReferences) == 0 &&
				!slices.Contains(ignored, name) && !slices.Contains(ignored, o.Kind) {
				names = append(names, name)
			}
		}, client.InNamespace(namespace))
	}
	return names, err
}

// addKinds returns all kinds in namespaces that the API server serves, and adds them to the mapper.
func (c *cluster) addKinds() (kinds []schema.GroupVersionKind, _ error) {
	lists, err := c.resources.ServerPreferredNamespacedResources()
	verbs := discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}
	for _, list := range discovery.FilteredBy(verbs, lists) {
		for _, r := range list.APIResources {
			kind := schema.FromAPIVersionAndKind(list.GroupVersion, r.Kind)
			of := kind.GroupVersion().WithResource
			c.RESTMapper().(*meta.DefaultRESTMapper).AddSpecific(kind, of(r.Name), of(r.SingularName),
				meta.RESTScopeNamespace)
			kinds = append(kinds, kind)
		}
	}
	return kinds, err
}
