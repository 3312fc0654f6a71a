package kubectl

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// maxLog is the number of bytes of each log.
const maxLog = 10 << 20

// resource is a kind of objects to gather. folder is its group and its plural.
type resource struct {
	group, version, kind, folder string
}

// clusterResources returns the kinds without a namespace.
func clusterResources() []resource {
	const snapshots, storage = "snapshot.storage.k8s.io", "storage.k8s.io"
	return []resource{
		{"operator.openshift.io", "v1", "ClusterCSIDriver", "operator.openshift.io/clustercsidrivers"},
		{storage, "v1", "StorageClass", "storage.k8s.io/storageclasses"},
		{storage, "v1", "CSIDriver", "storage.k8s.io/csidrivers"},
		{storage, "v1", "CSINode", "storage.k8s.io/csinodes"},
		{storage, "v1", "VolumeAttachment", "storage.k8s.io/volumeattachments"},
		{"", "v1", "PersistentVolume", "core/persistentvolumes"},
		{snapshots, "v1", "VolumeSnapshotClass", "snapshot.storage.k8s.io/volumesnapshotclasses"},
		{snapshots, "v1", "VolumeSnapshotContent", "snapshot.storage.k8s.io/volumesnapshotcontents"},
		{"config.openshift.io", "v1", "Infrastructure", "config.openshift.io/infrastructures"},
		{
			"apiextensions.k8s.io", "v1", "CustomResourceDefinition",
			"apiextensions.k8s.io/customresourcedefinitions",
		},
	}
}

// namespacedResources returns the kinds of the namespaces of operators and drivers.
func namespacedResources() []resource {
	return []resource{
		{"", "v1", "Secret", "core/secrets"}, // first, because the values are then redacted
		{"", "v1", "ConfigMap", "core/configmaps"},
		{"", "v1", "Event", "core/events"},
		{"", "v1", "Pod", "core/pods"},
		{"", "v1", "Service", "core/services"},
		{"", "v1", "ServiceAccount", "core/serviceaccounts"},
		{"apps", "v1", "ControllerRevision", "apps/controllerrevisions"},
		{"apps", "v1", "DaemonSet", "apps/daemonsets"},
		{"apps", "v1", "Deployment", "apps/deployments"},
		{"apps", "v1", "ReplicaSet", "apps/replicasets"},
		{"coordination.k8s.io", "v1", "Lease", "coordination.k8s.io/leases"},
		{"csiaddons.openshift.io", "v1alpha1", "CSIAddonsNode", "csiaddons.openshift.io/csiaddonsnodes"},
	}
}

func (r resource) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.group, Version: r.version, Kind: r.kind}
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
	logs logReader
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
	g := &gathering{s.guest, secrets, root, "", s.guest.logs}
	namespaces := []string{flavour.DefaultNamespace}
	for _, d := range drivers() {
		namespaces = append(namespaces, d.namespace)
	}
	all := map[*gathering][]string{g: slices.Compact(slices.Sorted(slices.Values(namespaces)))}
	if s.management != nil {
		hosted := &gathering{s.management, secrets, root, "management", s.management.logs}
		all[hosted] = []string{s.hostedControl}
	}
	// The Secrets of all clusters come before everything that could contain their values.
	for each, namespaces := range all {
		for _, namespace := range namespaces {
			if err := each.learn(ctx, namespace); err != nil {
				return err
			}
		}
	}
	for each, namespaces := range all {
		for _, namespace := range namespaces {
			if err := each.namespace(ctx, namespace); err != nil {
				return err
			}
		}
	}
	for _, r := range clusterResources() {
		if err := g.clusterScoped(ctx, r); err != nil {
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
	if len(report.NotVisible) > 0 {
		fmt.Fprintln(s.Out, wrap("", "Not visible: "+strings.Join(report.NotVisible, ", ")+".", 0))
	}
	return nil
}

// objects returns the objects of a kind, without managed fields.
func (g *gathering) objects(
	ctx context.Context, r resource, namespace string,
) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	kind := r.gvk()
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

// namespace writes a list for each kind, and the logs of the pods.
func (g *gathering) namespace(ctx context.Context, namespace string) error {
	for _, r := range namespacedResources() {
		objects, err := g.objects(ctx, r, namespace)
		if err != nil {
			return err
		}
		if len(objects) == 0 {
			continue
		}
		items := make([]any, 0, len(objects))
		for i := range objects {
			if r.kind == "Secret" {
				hideValues(&objects[i])
			}
			items = append(items, objects[i].Object)
		}
		name := path.Join("namespaces", namespace, r.folder+".yaml")
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
		return slices.ContainsFunc(append(d.nodes, d.controller, d.operator), func(name string) bool {
			return strings.HasPrefix(pod, name+"-")
		})
	})
}

// clusterScoped writes a file for each object. Of other groups it writes no definitions.
func (g *gathering) clusterScoped(ctx context.Context, r resource) error {
	objects, err := g.objects(ctx, r, "")
	if err != nil {
		return err
	}
	groups := map[string]bool{
		"operator.openshift.io": true, "snapshot.storage.k8s.io": true, "csiaddons.openshift.io": true,
	}
	for _, object := range objects {
		if r.kind == "CustomResourceDefinition" {
			group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
			if !groups[group] {
				continue
			}
		}
		name := path.Join("cluster-scoped-resources", r.folder,
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
