package kubectl

import (
	"cmp"
	"context"
	"net/url"
	"path"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

func clusterKinds() []schema.GroupVersionKind {
	extensions := schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
	return slices.Concat(
		kindsOf(opv1.GroupVersion, "ClusterCSIDriver"), ownKinds(),
		kindsOf(storagev1.SchemeGroupVersion, "StorageClass", "CSIDriver", "CSINode", "VolumeAttachment"),
		kindsOf(corev1.SchemeGroupVersion, "Node", "PersistentVolume"),
		kindsOf(snapshotv1.SchemeGroupVersion, "VolumeSnapshotClass", "VolumeSnapshotContent"),
		kindsOf(configv1.GroupVersion, "APIServer", "Infrastructure", "Proxy"),
		kindsOf(v1alpha1.GroupVersion(), "NetworkFence", "NetworkFenceClass"),
		kindsOf(extensions, "CustomResourceDefinition"),
	)
}

// namespacedKinds returns the kinds of the namespaces of operators and drivers.
func namespacedKinds() []schema.GroupVersionKind {
	return slices.Concat(
		kindsOf(corev1.SchemeGroupVersion, "Secret", "ConfigMap", "Event", "Pod", "Service",
			"ServiceAccount"),
		kindsOf(appsv1.SchemeGroupVersion, "ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet"),
		kindsOf(coordinationv1.SchemeGroupVersion, "Lease"),
		kindsOf(v1alpha1.GroupVersion(), "CSIAddonsNode"),
	)
}

// userKinds returns the kinds of the namespaces of users. Claims come before their events.
func userKinds() []schema.GroupVersionKind {
	return slices.Concat(
		kindsOf(corev1.SchemeGroupVersion, "PersistentVolumeClaim", "Event"),
		kindsOf(v1alpha1.GroupVersion(), "ReclaimSpaceCronJob", "ReclaimSpaceJob"),
	)
}

func ownKinds() (kinds []schema.GroupVersionKind) {
	for _, d := range drivers() {
		kinds = append(kinds, flavour.Own(d.ownKind()))
	}
	return kinds
}

func kindsOf(group schema.GroupVersion, names ...string) []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, name := range names {
		all = append(all, group.WithKind(name))
	}
	return all
}

func folder(kind schema.GroupVersionKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return path.Join(cmp.Or(kind.Group, "core"), plural.Resource)
}

// configuration writes the ConfigMaps of administrators that the operators read.
func (g *gathering) configuration(ctx context.Context) {
	infrastructure := &configv1.Infrastructure{}
	find(ctx, g.cluster, "", "cluster", infrastructure)
	of := g.flavour.Namespaces(g.drivers()[0].namespace, "")
	if of.UserConfig == "" {
		return
	}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	names := []string{of.CloudConfig, infrastructure.Spec.CloudConfig.Name}
	for _, d := range g.drivers() {
		names = append(names, strings.ToLower(d.title)+"-csi-config")
	}
	var items []any
	for _, o := range g.objects(ctx, kind, of.UserConfig) {
		if slices.Contains(names, o.GetName()) {
			data, _, _ := unstructured.NestedStringMap(o.Object, "data")
			for _, text := range data { // a cloud.conf of old releases contains the password
				g.addConfidential([]byte(text))
			}
			items = append(items, o.Object)
		}
	}
	g.writeList(of.UserConfig, kind, items)
}

// ofUsers writes the objects in the namespaces of users: claims of the drivers, their events, and
// objects of CSI-Addons. The function namespace writes all events of own namespaces.
func (g *gathering) ofUsers(ctx context.Context) {
	for _, kind := range userKinds() {
		lists := map[string][]any{}
		for _, o := range g.objects(ctx, kind, "") {
			namespace := o.GetNamespace()
			if g.isWanted(&o) && (kind.Kind != "Event" ||
				!slices.Contains(g.ownNamespaces(), namespace)) {
				lists[namespace] = append(lists[namespace], o.Object)
			}
		}
		for namespace, items := range lists {
			g.writeList(namespace, kind, items)
		}
	}
}

// isWanted returns whether an object belongs to a driver. It remembers what belongs to one.
func (g *gathering) isWanted(o *unstructured.Unstructured) bool {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, fields...)
		return value
	}
	switch o.GetKind() {
	case "CustomResourceDefinition":
		return slices.Contains([]string{
			opv1.GroupName, snapshotv1.GroupName, v1alpha1.GroupVersion().Group,
		}, text("spec", "group"))
	case "StorageClass":
		g.ours["StorageClass/"+o.GetName()] = g.findDriver(text("provisioner")) != nil
	case "PersistentVolume":
		var volume corev1.PersistentVolume
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &volume)
		g.ours["PersistentVolume/"+o.GetName()] = err == nil && g.findDriver(driverOf(&volume)) != nil
	case "PersistentVolumeClaim":
		ours := g.ours["StorageClass/"+text("spec", "storageClassName")] ||
			g.ours["PersistentVolume/"+text("spec", "volumeName")]
		g.ours[string(o.GetUID())] = ours
		return ours
	case "Event":
		return g.ours[text("involvedObject", "uid")]
	}
	return true
}

// clusterScoped writes a file for each object. Of other groups it writes no definitions.
func (g *gathering) clusterScoped(ctx context.Context) {
	for _, kind := range clusterKinds() {
		for _, o := range g.objects(ctx, kind, "") {
			if g.isWanted(&o) {
				g.write(path.Join("cluster-scoped-resources", folder(kind),
					url.PathEscape(o.GetName())+".yaml"), o.Object)
			}
		}
	}
}
