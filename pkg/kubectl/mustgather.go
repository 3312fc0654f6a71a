package kubectl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// maxLog is the number of bytes of each log.
const maxLog = 10 << 20

func newMustGatherCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "must-gather [DIR]",
		Short: "Write objects and logs of operators and drivers into a folder, without secrets",
		Long: "Write objects and logs of operators and drivers into a folder, by default " +
			"must-gather.openstack-csi, in the structure of `oc adm inspect`. Values of Secrets become " +
			"lengths. docs/kubectl.md lists the permissions.",
		Args: atMost(1),
		RunE: o.run(func(ctx context.Context, s *session, args []string) error {
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

// gathering writes the objects of a cluster below a folder. After the first error, which is in
// failed, it reads and writes nothing.
type gathering struct {
	*cluster
	*redactor

	// root is the folder of the output, and dir the folder in it for the cluster. An API server of
	// others must not name a file outside.
	root *os.Root
	dir  string
	// ours contains the StorageClasses, PersistentVolumes and UIDs of claims of the drivers.
	ours map[string]bool
	// unread are the containers whose logs exist and could not be read.
	unread []string
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
	g := &gathering{cluster: s.guest, redactor: secrets, root: root, ours: map[string]bool{}}
	all := map[*gathering][]string{g: s.guest.ownNamespaces()}
	if s.management != nil {
		hosted := &gathering{
			cluster: s.management, redactor: secrets, root: root, dir: "management",
		}
		all[hosted] = []string{s.hostedControl}
	}
	everywhere := func(step func(*gathering, context.Context, string)) {
		for each, namespaces := range all {
			for _, namespace := range namespaces {
				step(each, ctx, namespace)
			}
		}
	}
	// What is secret in all clusters comes before everything that could contain it.
	g.learnAdministrators(ctx)
	everywhere((*gathering).learn)
	if err := s.failed(); err != nil {
		return err
	}
	g.configuration(ctx)
	everywhere((*gathering).namespace)
	g.clusterScoped(ctx)
	g.ofUsers(ctx)
	var unread []string
	hidden := false
	for each := range all {
		unread = append(unread, each.unread...)
		hidden = hidden || each.hidden[hiddenLogs] || each.hidden[hiddenValues]
	}
	err = s.summarize(ctx, g)
	switch {
	case err != nil:
	case len(unread) > 0:
		slices.Sort(unread)
		err = fmt.Errorf("the folder is incomplete: %d logs could not be read, and their files contain "+
			"the errors: %s", len(unread), diagnosis.List(unread))
	case hidden:
		err = errors.New("the folder is incomplete: it lacks logs, which are not visible")
	}
	return err
}

// ownNamespaces returns the namespaces of operators and drivers.
func (c *cluster) ownNamespaces() (all []string) {
	for _, d := range c.drivers() {
		all = append(all, d.namespace)
	}
	return slices.Compact(all)
}

// summarize writes the output of `status -o yaml`, and what was not visible.
func (s *session) summarize(ctx context.Context, g *gathering) error {
	report, err := s.status(ctx, s.guest.drivers())
	if err != nil {
		return err
	}
	g.write("status.yaml", struct {
		metav1.TypeMeta
		*Status
	}{metav1.TypeMeta{APIVersion: outputVersion, Kind: "Status"}, report})
	if err := s.failed(); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, "The folder", g.root.Name(), "contains the objects and logs")
	writeNotVisible(s.Out, report.NotVisible)
	return nil
}

// objects returns the objects of a kind, without managed fields and the images of nodes.
func (g *gathering) objects(
	ctx context.Context, kind schema.GroupVersionKind, namespace string,
) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	g.read(ctx, list, client.InNamespace(namespace))
	for i := range list.Items {
		list.Items[i].SetManagedFields(nil)
		unstructured.RemoveNestedField(list.Items[i].Object, "status", "images")
	}
	return list.Items
}

// learn reads the Secrets whose values must not appear.
func (g *gathering) learn(ctx context.Context, namespace string) {
	for _, secret := range list[corev1.SecretList](ctx, g.cluster,
		client.InNamespace(namespace)).Items {
		g.add(secret.Data)
	}
}

// learnAdministrators reads the credentials that the drivers get copies of, and those from before a
// rotation.
func (g *gathering) learnAdministrators(ctx context.Context) {
	for _, name := range []string{rootSecret, backupSecret} {
		secret := &corev1.Secret{}
		find(ctx, g.cluster, rootNamespace, name, secret)
		g.add(secret.Data)
	}
}

// namespace writes a list for each kind, and the logs of the pods.
func (g *gathering) namespace(ctx context.Context, namespace string) {
	for _, kind := range namespacedKinds() {
		objects := g.objects(ctx, kind, namespace)
		var items []any
		for i := range objects {
			if kind.Kind == "Secret" {
				hideValues(&objects[i])
			}
			items = append(items, objects[i].Object)
		}
		g.writeList(namespace, kind, items)
	}
	for _, pod := range list[corev1.PodList](ctx, g.cluster, client.InNamespace(namespace)).Items {
		if g.isOurs(pod.Name) {
			g.podLogs(ctx, &pod)
		}
	}
}

func (g *gathering) writeList(namespace string, kind schema.GroupVersionKind, items []any) {
	if len(items) > 0 {
		g.write(path.Join("namespaces", namespace, folder(kind)+".yaml"), map[string]any{
			"apiVersion": "v1", "kind": "List", "items": items,
		})
	}
}

// isOurs returns whether a pod belongs to a workload of a driver or to an operator.
func (g *gathering) isOurs(pod string) bool {
	return g.driverIf(func(d driver) bool {
		return slices.ContainsFunc(d.workloads(), func(name string) bool {
			return strings.HasPrefix(pod, name+"-")
		})
	}) != nil
}

// hideValues replaces each value of a Secret by its length. Annotations may contain the values.
func hideValues(secret *unstructured.Unstructured) {
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	lengths := map[string]any{}
	for key, value := range data {
		lengths[key] = fmt.Sprintf("%d characters of base64", len(value))
	}
	secret.Object["data"] = lengths
	secret.SetAnnotations(nil)
}
