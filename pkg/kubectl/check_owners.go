package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// others returns an error if the release of the installation serves drivers of other names, whose
// volumes would lose their driver with the release.
func (n *neighbour) others(found []*neighbour) error {
	for _, other := range found {
		if other.served == n.served || other.volumes == 0 {
			continue
		}
		for _, w := range other.workloads {
			if release := w.release(); release != "" && release == n.workloads[0].release() {
				return fmt.Errorf("%s also serves driver %s, which no driver here does, and %d "+
					"PersistentVolumes name it: keep this installation while there are such", release,
					other.served, other.volumes)
			}
		}
	}
	return nil
}

// restored returns an error if a HelmChart, as in k3s and RKE2, would install the release again.
// Other objects for releases of Helm leave marks in the objects of the release.
func (s *session) restored(ctx context.Context, n *neighbour) error {
	marks := n.workloads[0].GetAnnotations()
	name, namespace := marks[releaseName], marks[releaseNamespace]
	kind := schema.GroupVersionKind{Group: "helm.cattle.io", Version: "v1", Kind: "HelmChart"}
	if name == "" || !slices.ContainsFunc(
		list[apiextensionsv1.CustomResourceDefinitionList](ctx, s.guest).Items,
		func(d apiextensionsv1.CustomResourceDefinition) bool {
			return d.Spec.Group == kind.Group && d.Spec.Names.Kind == kind.Kind
		}) {
		return nil
	}
	s.guest.RESTMapper().(*meta.DefaultRESTMapper).Add(kind, meta.RESTScopeNamespace)
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind)
	s.guest.read(ctx, objects)
	for _, o := range objects.Items {
		target, _, _ := unstructured.NestedString(o.Object, "spec", "targetNamespace")
		if target == "" {
			target = o.GetNamespace()
		}
		by := ownerIn(&o)
		if by.name == name && target == namespace && o.GetAnnotations()[unmanaged] != "true" {
			return fmt.Errorf("%s would install Helm release %s again. First run: %s", by, name,
				by.command(by.suspend))
		}
	}
	return nil
}

// common matches labels and annotations that charts, manifests and Kubernetes itself set.
var common = regexp.MustCompile(`^(app|chart|component|heritage|k8s-app|release|` +
	`app\.kubernetes\.io/.*|helm\.sh/.*|meta\.helm\.sh/.*|` +
	`deprecated\.daemonset\.template\.generation|deployment\.kubernetes\.io/.*|` +
	`kubectl\.kubernetes\.io/.*)$`)

// addOwners adds remarks about who may apply the workloads again.
func (n *neighbour) addOwners(v *charts.Values) {
	var marks []string
	isReleased := false
	for _, w := range n.workloads {
		released := w.GetAnnotations()[releaseName] != ""
		isReleased = isReleased || released
		for mark := range labels.Merge(w.GetLabels(), w.GetAnnotations()) {
			isOwn := released && !strings.Contains(mark, "/") // from values, such as commonLabels
			if !isOwn && !common.MatchString(mark) && !slices.Contains(marks, mark) {
				marks = append(marks, mark)
			}
		}
	}
	slices.Sort(marks)
	switch by := n.gitOps(); {
	case by.name != "":
		v.Remark(n.title, "%s", by.applies())
	case len(marks) > 0:
		v.Remark(n.title, "Its labels or annotations (%s) say that another program may have applied it. "+
			"If so, end that first, or its driver starts beside ours", diagnosis.List(marks))
	case !isReleased:
		v.Remark(n.title, "No record says who applied it. If a program did, end that first, or its "+
			"driver starts beside ours")
	}
}

// gitOps returns what applies a workload from Git; without a name for nothing.
func (n *neighbour) gitOps() owner {
	for _, w := range n.workloads {
		for _, by := range ownersOf(w) {
			if by.suspend != "" {
				return by
			}
		}
	}
	return owner{}
}

// usual matches the variables and the folders of containers in the manifests and charts of
// cloud-provider-openstack v1.33 to v1.36, and the variables of the downward API for pods.
var usual = regexp.MustCompile(`^(ADDRESS|CLOUD_CONFIG|CLUSTER_NAME|CSI_ENDPOINT|DRIVER_NAME|` +
	`DRIVER_REG_SOCK_PATH|FWD_CSI_ENDPOINT|KUBE_NODE_NAME|MANILA_SHARE_PROTO|MY_POD_NAME|NODE_ID|` +
	`POD_NAME|POD_NAMESPACE|` +
	`/csi|/dev|/etc/cacert|/etc/config|/registration|/runtimeconfig|/var/lib/csi/.*|` +
	`/var/lib/kubelet.*)$`)

// addRest adds remarks about variables and folders of the driver's containers that no value sets,
// and returns the file with CAs that they name, "" for none.
func (n *neighbour) addRest(v *charts.Values) (ca string) {
	proxies := map[string]string{
		"HTTP_PROXY": "proxy.http", "HTTPS_PROXY": "proxy.https", "NO_PROXY": "proxy.no",
	}
	for _, w := range n.workloads {
		var rest []string
		folder := w.kubeletDir()
		for _, c := range w.pod.Containers {
			for _, variable := range c.Env {
				switch value := proxies[strings.ToUpper(variable.Name)]; {
				case variable.Name == "SSL_CERT_FILE" && strings.Contains(commandOf(c), n.program()):
					ca = variable.Value
				case value != "" && variable.Value != "":
					v.Set("", value, variable.Value, w.name)
				case !usual.MatchString(variable.Name):
					rest = append(rest, "variable "+variable.Name)
				}
			}
			for _, m := range c.VolumeMounts {
				isKubelets := folder != "" && strings.HasPrefix(m.MountPath, folder)
				if !usual.MatchString(m.MountPath) && !isKubelets && !strings.HasPrefix(ca, m.MountPath+"/") {
					rest = append(rest, "folder "+m.MountPath)
				}
			}
		}
		slices.Sort(rest)
		if rest = slices.Compact(rest); len(rest) > 0 {
			v.Remark(w.name, "The values contain no equal of its %s", diagnosis.List(rest))
		}
	}
	return ca
}

// edits returns the fields in the spec of a workload of a release that others have set than who has
// installed the release: the manager of the annotation with its name, which each program that
// contains Helm calls otherwise.
func (w workload) edits() (fields []string) {
	installers, sets := map[string]bool{}, map[string][]map[string]any{}
	for _, m := range w.GetManagedFields() {
		var set map[string]any
		if m.FieldsV1 == nil || m.Subresource != "" ||
			json.Unmarshal(m.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		_, installed, _ := unstructured.NestedMap(set, "f:metadata", "f:annotations", "f:"+releaseName)
		installers[m.Manager] = installers[m.Manager] || installed
		spec, _, _ := unstructured.NestedMap(set, "f:spec")
		pod, _, _ := unstructured.NestedMap(set, "f:spec", "f:template", "f:spec")
		sets[m.Manager] = append(sets[m.Manager], spec, pod)
	}
	if !slices.Contains(slices.Collect(maps.Values(installers)), true) {
		return nil // nobody knows
	}
	for manager, owned := range sets {
		for _, set := range owned {
			for name := range set {
				field := strings.TrimPrefix(name, "f:")
				if !installers[manager] && field != name && field != "template" &&
					!slices.Contains(fields, field) {
					fields = append(fields, field)
				}
			}
		}
	}
	return fields
}

// details returns what else must be known to replace an installation.
func (s *session) details(n *neighbour) (links []Link) {
	if names := namesOf(n.classes); len(names) > 0 {
		links = append(links, linkf(OK, "its StorageClasses: %s. Claims grow only while theirs exists",
			strings.Join(names, ", ")))
	}
	if len(n.secrets) > 0 {
		links = append(links, linkf(Warning, "volumes, snapshots and classes of %s name the Secrets %s, "+
			"which must stay", n.title, strings.Join(n.secrets, ", ")))
	}
	id := n.clusterID()
	isController := func(w workload) bool { return !w.isNode() }
	switch {
	case id == "" && !slices.ContainsFunc(n.workloads, isController): // the controller has the flag
	case id == "":
		links = append(links, linkf(Warning, "no volume of %s has a cluster ID in OpenStack, so nothing "+
			"finds orphans among them", n.title))
	case id == sharedID:
		links = append(links, linkf(Warning, "volumes of %s have the cluster ID %s in OpenStack, which "+
			"other clusters may have, too", n.title, id))
	default:
		links = append(links, linkf(OK, "volumes of %s have the cluster ID %s in OpenStack", n.title, id))
	}
	return links
}
