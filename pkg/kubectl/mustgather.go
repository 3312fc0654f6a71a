package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// maxLog is the number of bytes of each log.
const maxLog = 10 << 20

// clusterKinds returns the kinds without a namespace.
func clusterKinds() []schema.GroupVersionKind {
	extensions := schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
	return slices.Concat(
		kindsOf(opv1.GroupVersion, "ClusterCSIDriver"),
		kindsOf(storagev1.SchemeGroupVersion, "StorageClass", "CSIDriver", "CSINode", "VolumeAttachment"),
		kindsOf(corev1.SchemeGroupVersion, "PersistentVolume"),
		kindsOf(snapshotv1.SchemeGroupVersion, "VolumeSnapshotClass", "VolumeSnapshotContent"),
		kindsOf(configv1.GroupVersion, "Infrastructure"),
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

func kindsOf(group schema.GroupVersion, names ...string) []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, name := range names {
		all = append(all, group.WithKind(name))
	}
	return all
}

// folder returns the group and the plural of a kind.
func folder(kind schema.GroupVersionKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return path.Join(cmp.Or(kind.Group, "core"), plural.Resource)
}

func newMustGatherCommand(o *options, streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "must-gather [DIR]",
		Short: "Write objects and logs of operators and drivers into a folder, without secrets",
		Long: "Write objects and logs of operators and drivers into a folder, by default " +
			"must-gather.openstack-csi, in the structure of `oc adm inspect`. Values of Secrets become " +
			"lengths. docs/kubectl.md lists the permissions.",
		Args: atMost(1),
		RunE: o.run(streams, func(ctx context.Context, s *session, args []string) error {
			dir := "must-gather.openstack-csi"
			if len(args) > 0 {
				dir = args[0]
			}
			return s.mustGather(ctx, dir)
		}),
	}
	addTimeoutTo(cmd.Flags(), 10*time.Minute)
	return cmd
}

// gathering writes the objects of a cluster below a folder.
type gathering struct {
	*cluster
	*redactor

	// root is the folder of the output, and dir the folder in it for the cluster. An API server of
	// others must not name a file outside.
	root *os.Root
	dir  string
}

func (s *session) mustGather(ctx context.Context, dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return usage("%s is not empty: name another folder", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	secrets := &redactor{}
	g := &gathering{s.guest, secrets, root, ""}
	namespaces := []string{flavour.DefaultNamespace}
	for _, d := range drivers() {
		namespaces = append(namespaces, d.namespace)
	}
	all := map[*gathering][]string{g: slices.Compact(slices.Sorted(slices.Values(namespaces)))}
	if s.management != nil {
		hosted := &gathering{s.management, secrets, root, "management"}
		all[hosted] = []string{s.hostedControl}
	}
	// The Secrets of all clusters come before everything that could contain their values.
	if err := g.learnAdministrators(ctx); err != nil {
		return err
	}
	for _, step := range []func(*gathering, context.Context, string) error{
		(*gathering).learn, (*gathering).namespace,
	} {
		for each, namespaces := range all {
			for _, namespace := range namespaces {
				if err := step(each, ctx, namespace); err != nil {
					return err
				}
			}
		}
	}
	for _, kind := range clusterKinds() {
		if err := g.clusterScoped(ctx, kind); err != nil {
			return err
		}
	}
	return s.summarize(ctx, g)
}

// summarize writes the output of `status -o yaml`, and what was not visible.
func (s *session) summarize(ctx context.Context, g *gathering) error {
	report, err := s.status(ctx, drivers())
	if err != nil {
		return err
	}
	if err := g.write("status.yaml", report); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, "The folder", g.root.Name(), "contains the objects and logs")
	writeNotVisible(s.Out, report.NotVisible)
	return nil
}

// objects returns the objects of a kind, without managed fields.
func (g *gathering) objects(
	ctx context.Context, kind schema.GroupVersionKind, namespace string,
) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	err := g.list(ctx, list, client.InNamespace(namespace))
	for i := range list.Items {
		list.Items[i].SetManagedFields(nil)
	}
	return list.Items, err
}

// learn reads the Secrets whose values must not appear.
func (g *gathering) learn(ctx context.Context, namespace string) error {
	var secrets corev1.SecretList
	if err := g.list(ctx, &secrets, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, secret := range secrets.Items {
		g.add(secret.Data)
	}
	return nil
}

// learnAdministrators reads the credentials that the drivers get copies of, and those from before a
// rotation.
func (g *gathering) learnAdministrators(ctx context.Context) error {
	for _, name := range []string{rootSecret, backupSecret} {
		secret := &corev1.Secret{}
		if _, err := g.get(ctx, rootNamespace, name, secret); err != nil {
			return err
		}
		for _, public := range []string{workloadsKey, replaced + workloadsKey, latestKey} {
			delete(secret.Data, public)
		}
		g.add(secret.Data)
	}
	return nil
}

// namespace writes a list for each kind, and the logs of the pods.
func (g *gathering) namespace(ctx context.Context, namespace string) error {
	for _, kind := range namespacedKinds() {
		objects, err := g.objects(ctx, kind, namespace)
		if err != nil {
			return err
		}
		if len(objects) == 0 {
			continue
		}
		items := make([]any, 0, len(objects))
		for i := range objects {
			if kind.Kind == "Secret" {
				hideValues(&objects[i])
			}
			items = append(items, objects[i].Object)
		}
		name := path.Join("namespaces", namespace, folder(kind)+".yaml")
		if err := g.write(name, map[string]any{
			"apiVersion": "v1", "kind": "List", "items": items,
		}); err != nil {
			return err
		}
	}
	var pods corev1.PodList
	if err := g.list(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range pods.Items {
		if isOurs(pods.Items[i].Name) {
			if err := g.podLogs(ctx, &pods.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// isOurs returns whether a pod belongs to a workload of a driver or to an operator.
func isOurs(pod string) bool {
	return slices.ContainsFunc(drivers(), func(d driver) bool {
		return slices.ContainsFunc(d.workloads(), func(name string) bool {
			return strings.HasPrefix(pod, name+"-")
		})
	})
}

// clusterScoped writes a file for each object. Of other groups it writes no definitions.
func (g *gathering) clusterScoped(ctx context.Context, kind schema.GroupVersionKind) error {
	objects, err := g.objects(ctx, kind, "")
	if err != nil {
		return err
	}
	groups := map[string]bool{
		"operator.openshift.io": true, "snapshot.storage.k8s.io": true, "csiaddons.openshift.io": true,
	}
	for _, object := range objects {
		if kind.Kind == "CustomResourceDefinition" {
			group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
			if !groups[group] {
				continue
			}
		}
		name := path.Join("cluster-scoped-resources", folder(kind),
			url.PathEscape(object.GetName())+".yaml")
		if err := g.write(name, object.Object); err != nil {
			return err
		}
	}
	return nil
}

// hideValues replaces each value of a Secret by its length. Annotations may contain the values.
func hideValues(secret *unstructured.Unstructured) {
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	lengths := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		lengths[key] = fmt.Sprintf("%d characters of base64", len(data[key]))
	}
	kept := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": secret.Object["type"], "data": lengths,
		"metadata": map[string]any{
			"name": secret.GetName(), "namespace": secret.GetNamespace(),
			"creationTimestamp": secret.GetCreationTimestamp().UTC().Format(time.RFC3339),
			"resourceVersion":   secret.GetResourceVersion(),
		},
	}
	secret.Object = kept
}
