package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// defaultKubeletDir is the folder of the kubelet in the manifests.
const defaultKubeletDir = "/var/lib/kubelet"

type workload struct {
	client.Object

	name     string
	pod      corev1.PodSpec
	replicas int32
}

// release names the Helm release of the workload, and its chart; "" for none.
func (w workload) release() string {
	labels, marks := w.GetLabels(), w.GetAnnotations()
	if marks[releaseName] == "" {
		return ""
	}
	text := "Helm release " + marks[releaseNamespace] + "/" + marks[releaseName]
	if chart := cmp.Or(labels["helm.sh/chart"], labels["chart"]); chart != "" {
		text += " (chart " + chart + ")"
	}
	return text
}

// isNode returns whether the workload has a pod on each node.
func (w workload) isNode() bool { return strings.HasPrefix(w.name, "DaemonSet ") }

// kubeletDir returns the folder of the kubelet that the workload mounts a part of, "" for none.
func (w workload) kubeletDir() string {
	for _, v := range w.pod.Volumes {
		if v.HostPath != nil && path.Base(v.HostPath.Path) == "plugins_registry" {
			return path.Dir(path.Clean(v.HostPath.Path))
		}
	}
	return ""
}

// runs returns the first workload of which a container has an image or a command with the text.
func runs(all []workload, text string) *workload {
	i := slices.IndexFunc(all, func(w workload) bool {
		return slices.ContainsFunc(w.pod.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(append(c.Command, c.Image), func(part string) bool {
				return strings.Contains(part, text)
			})
		})
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// workloadsOfOthers returns the workloads of the cluster that are not of an installation of ours.
func (s *session) workloadsOfOthers(ctx context.Context) (all []workload) {
	add := func(kind string, o client.Object, pod corev1.PodTemplateSpec, replicas *int32) {
		isOurs := func(d driver) bool {
			return slices.Contains(d.workloads(), o.GetName()) &&
				(o.GetLabels()[partLabel] == partOf || s.guest.onOpenShift())
		}
		if s.guest.driverIf(isOurs) == nil {
			name := kind + " " + o.GetNamespace() + "/" + o.GetName()
			all = append(all, workload{o, name, pod.Spec, ptr.Deref(replicas, 0)})
		}
	}
	for _, d := range list[appsv1.DeploymentList](ctx, s.guest).Items {
		add("Deployment", &d, d.Spec.Template, d.Spec.Replicas)
	}
	for _, d := range list[appsv1.StatefulSetList](ctx, s.guest).Items {
		add("StatefulSet", &d, d.Spec.Template, d.Spec.Replicas)
	}
	for _, d := range list[appsv1.DaemonSetList](ctx, s.guest).Items {
		add("DaemonSet", &d, d.Spec.Template, nil)
	}
	return all
}

// checkInstallation returns what the objects of a cluster say about an installation.
func (s *session) checkInstallation(ctx context.Context) []Link {
	all := s.workloadsOfOthers(ctx)
	definitions := list[apiextensionsv1.CustomResourceDefinitionList](ctx, s.guest).Items
	nodes, own := list[corev1.NodeList](ctx, s.guest).Items, flavour.Own("")
	onKubernetes := !s.guest.onOpenShift()
	links := append([]Link{s.permissions(ctx)}, s.neighbours(ctx, all)...)
	if s.guest.hidden["CustomResourceDefinitions"] {
		links = append(links, linkf(NotVisible, "CustomResourceDefinitions"))
	} else {
		if onKubernetes {
			links = append(links, definitionsOf(definitions, own.Group, own.Version,
				"crds.yaml of the release contains them, and so does the chart"))
		}
		links = append(links,
			definitionsOf(definitions, snapshotv1.GroupName, "v1",
				"snapshots.yaml of the release contains them"),
			definitionsOf(definitions, v1alpha1.Group, v1alpha1.GroupVersion().Version,
				"they are optional"))
	}
	links = append(links, s.controllers(all)...)
	for _, d := range s.guest.drivers() {
		for _, text := range s.doubleDefault(ctx, d) {
			links = append(links, linkf(Warning, "%s", text))
		}
	}
	if onKubernetes { // OpenShift fixes the folder
		links = append(links, kubelet(all, nodes))
	}
	return append(links, nodeLinks(nodes)...)
}

// permissions returns whether the caller may create the objects of the manifests.
func (s *session) permissions(ctx context.Context) Link {
	attributes, err := s.guest.needed()
	if err != nil {
		s.guest.failed = errors.Join(s.guest.failed, err)
	}
	var denied []string
	for _, a := range attributes {
		review := &authorizationv1.SelfSubjectAccessReview{}
		review.Spec.ResourceAttributes = &a
		if err := s.guest.Create(ctx, review); err != nil {
			s.guest.failed = errors.Join(s.guest.failed, fmt.Errorf("asking for permissions: %w", err))
			break
		}
		if !review.Status.Allowed {
			denied = append(denied, a.Verb+" "+a.Resource)
		}
	}
	if len(denied) > 0 {
		slices.Sort(denied)
		return linkf(Problem, "you may not %s. Install with the permissions of a "+
			"cluster administrator", strings.Join(slices.Compact(denied), ", "))
	}
	return linkf(OK, "you may create everything that the manifests contain")
}

// needed returns requests to create the objects of the manifests, one for each resource and
// namespace. Roles may contain permissions that their creator does not have.
func (c *cluster) needed() ([]authorizationv1.ResourceAttributes, error) {
	all := []authorizationv1.ResourceAttributes{
		{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions", Verb: "create"},
		{Resource: "namespaces", Verb: "create"},
		{Resource: "secrets", Namespace: c.drivers()[0].namespace, Verb: "create"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Verb: "escalate"},
	}
	objects, err := manifestsIn("drivers/*/generated/" +
		string(cmp.Or(c.flavour, flavour.Of(true))) + "/*/*.yaml")
	for _, o := range objects {
		kind := o.GroupVersionKind()
		if kind.Group == "cloudcredential.openshift.io" {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		one := authorizationv1.ResourceAttributes{
			Group: kind.Group, Resource: resource.Resource, Namespace: o.Namespace, Verb: "create",
		}
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all, err
}

// definitionsOf returns whether the CustomResourceDefinitions of a group, if any, serve a version.
func definitionsOf(
	all []apiextensionsv1.CustomResourceDefinition, group, version, without string,
) Link {
	found, others := 0, 0
	for _, one := range all {
		if one.Spec.Group != group {
			continue
		}
		found++
		if one.Annotations[v1alpha1.RevisionAnnotation] == "" {
			others++
		}
		if !slices.ContainsFunc(one.Spec.Versions, func(
			v apiextensionsv1.CustomResourceDefinitionVersion,
		) bool {
			return v.Served && v.Name == version
		}) {
			return linkf(Problem, "CustomResourceDefinition %s does not serve the version "+
				"%s: upgrade what has installed it", one.Name, version)
		}
	}
	switch {
	case found == 0:
		return linkf(OK, "there are no CustomResourceDefinitions of %s: %s", group,
			without)
	case group == v1alpha1.Group && others > 0:
		return linkf(OK, "%d CustomResourceDefinitions of %s stay as another program "+
			"has installed them", others, group)
	}
	return linkf(OK, "CustomResourceDefinitions of %s serve %s", group, version)
}

const snapshotController = "snapshot-controller"

const installSnapshotController = "Apply snapshots.yaml of the release, or set " +
	"snapshotController.enabled of the chart, unless another program of the distribution contains one"

// askSnapshotController returns what to do if the snapshot controller does not do its work.
func (s *session) askSnapshotController(ctx context.Context) string {
	switch found := runs(s.workloadsOfOthers(ctx), snapshotController); {
	case s.guest.onOpenShift():
		return "Check ClusterOperator csi-snapshot-controller"
	case found == nil && s.guest.hidden["Deployments"]:
		return "Install a snapshot controller, or see its log"
	case found == nil:
		return "No Deployment is a snapshot controller. " + installSnapshotController
	case found.replicas == 0:
		return found.name + " is the snapshot controller, with 0 replicas: start it"
	default:
		return "See the log of " + found.name
	}
}

// controllers returns whether a snapshot controller runs, and a warning if a controller of the
// CSI-Addons of others does.
func (s *session) controllers(all []workload) []Link {
	snapshots := linkf(Warning, "no Deployment is a snapshot controller, without which snapshots "+
		"never become ready").then(installSnapshotController)
	if found := runs(all, snapshotController); found != nil {
		snapshots = linkf(OK, "%s is a snapshot controller", found.name)
	} else if s.guest.hidden["Deployments"] {
		snapshots = linkf(NotVisible, "whether a snapshot controller runs")
	}
	other := slices.IndexFunc(all, func(w workload) bool {
		return strings.HasSuffix(w.name, "/csi-addons-controller-manager")
	})
	if other < 0 || runs(all, "csi-addons-controller") != nil {
		return []Link{snapshots}
	}
	return []Link{snapshots, linkf(Warning, "%s is the controller of "+
		"CSI-Addons of another project. Keep it, or remove it before you install ours",
		all[other].name)}
}

const kubeletField = "spec.kubeletDir of ManilaDriver and CinderDriver"

// kubelet returns the folder of the kubelet as far as objects show it: the API server does not know
// it, but other CSI drivers mount it.
func kubelet(all []workload, nodes []corev1.Node) Link {
	for _, w := range all {
		switch folder := w.kubeletDir(); folder {
		case "":
		case defaultKubeletDir:
			return linkf(OK, "the folder of the kubelet is %s for %s", folder, w.name)
		default:
			return linkf(Warning, "the folder of the kubelet is %s for %s. Set %s to %[1]s",
				folder, w.name, kubeletField)
		}
	}
	for _, n := range nodes {
		_, microK8s := n.Labels["microk8s.io/cluster"]
		if microK8s || strings.Contains(n.Status.NodeInfo.KubeletVersion, "+k0s") {
			return linkf(Warning, "node %s is one of k0s or MicroK8s, whose kubelet has "+
				"another folder than %s. Set %s", n.Name, defaultKubeletDir, kubeletField)
		}
	}
	return linkf(NotVisible, "no object shows the folder of the kubelet. The "+
		"manifests use %s; for another one set %s", defaultKubeletDir, kubeletField)
}
