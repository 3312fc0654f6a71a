package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// owner is the object of a tool that has installed others, and may create or change them again.
type owner struct {
	// mark is the label or annotation with its name, prefix that of its namespace, "" without one.
	mark, prefix string
	// title names it with its namespace. The commands have its name and its namespace: end ends it,
	// again creates what is missing, and suspend lets it change nothing.
	title, end, again, suspend string
	// definition is that of its objects, "" without one.
	definition string

	namespace, name string
}

const kustomization, helmRelease = "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io"

// owners returns those of the tools that docs describe, without names.
func owners() (all []owner) {
	for _, mark := range []string{"/tracking-id", "/instance"} {
		all = append(all, owner{
			mark: "argocd.argoproj.io" + mark, title: "Application %s of Argo CD",
			end: "argocd app delete %s", again: "Run: argocd app sync %s",
			suspend:    "argocd app set %s --sync-policy=none",
			definition: "applications.argoproj.io",
		})
	}
	for _, of := range [][3]string{
		{kustomization, "Kustomization", ""}, {helmRelease, "HelmRelease", " --force"},
	} {
		kind := strings.ToLower(of[1])
		all = append(all, owner{
			mark: of[0] + "/name", prefix: of[0] + "/", title: of[1] + " %s of Flux",
			end: "flux delete " + kind + " %s", again: "Run: flux reconcile " + kind + " %s" + of[2],
			suspend:    "flux suspend " + kind + " %s",
			definition: kind + "s." + of[0],
		})
	}
	return append(all, owner{
		mark: releaseName, prefix: "meta.helm.sh/release-", title: "Helm release %s",
		end: "helm uninstall %s", again: `Run: helm upgrade %s "$CHART" --reset-then-reuse-values`,
	}, owner{
		mark: "olm.owner", prefix: "olm.owner.", title: "ClusterServiceVersion %s of OLM",
		end:        "kubectl delete subscription/PACKAGE csv/%s",
		again:      "See " + version.Page("docs/olm.md#install"),
		definition: "clusterserviceversions.operators.coreos.com",
	}, owner{ // without marks in what it applies
		mark: helmCharts, prefix: helmCharts + "/", title: "HelmChart %s of k3s or RKE2",
		suspend: "kubectl annotate " + helmCharts + " %s " + unmanaged + "=true. Do not delete it: " +
			"that uninstalls the release",
		definition: helmCharts,
	})
}

// helmCharts is the definition of HelmChart, and unmanaged the annotation with which its controller
// ignores one (https://github.com/k3s-io/helm-controller).
const helmCharts, unmanaged = "helmcharts.helm.cattle.io", "helmcharts.helm.cattle.io/unmanaged"

// ownerIn returns the owner that an object is, or configures, one without a name for others.
func ownerIn(o *unstructured.Unstructured) owner {
	kind, marked := o.GroupVersionKind(), &unstructured.Unstructured{}
	definition := strings.ToLower(strings.TrimSuffix(kind.Kind, "Config")) + "s." + kind.Group
	for _, by := range owners() {
		marked.SetAnnotations(map[string]string{
			by.mark: o.GetName(), by.prefix + "namespace": o.GetNamespace(),
		})
		if all := ownersOf(marked); by.definition == definition && len(all) > 0 {
			return all[0]
		}
	}
	return owner{}
}

// applies says what to do before ours replace what it applies.
func (o owner) applies() string {
	return fmt.Sprintf("%s applies it: suspend that, or its driver starts beside ours. Run: %s", o,
		o.command(o.suspend))
}

// ownersOf returns those whose marks an object has. Users may write any text into a mark, and
// people run commands with it: nobody has such a name.
func ownersOf(o client.Object) (all []owner) {
	marks := labels.Merge(o.GetAnnotations(), o.GetLabels())
	isName := func(text string) bool {
		return len(validation.IsDNS1123Subdomain(strings.ReplaceAll(text, "_", "."))) == 0
	}
	for _, by := range owners() {
		by.name, _, _ = strings.Cut(marks[by.mark], ":") // the ID of Argo CD continues with the object
		if by.prefix != "" {
			by.namespace = marks[by.prefix+"namespace"]
		}
		if isName(by.name) && (by.namespace == "" || isName(by.namespace)) {
			all = append(all, by)
		}
	}
	return all
}

func (o owner) String() string {
	return fmt.Sprintf(o.title, strings.TrimPrefix(o.namespace+"/"+o.name, "/"))
}

// command returns a text about an owner with its name and its namespace.
func (o owner) command(text string) string {
	name := o.name
	if o.namespace != "" {
		name += " --namespace=" + o.namespace
	}
	return strings.Replace(text, "%s", name, 1)
}

// learn remembers what has installed an object of the operators.
func (c *cluster) learn(o client.Object) {
	c.found = true
	if all := ownersOf(o); c.owner.name == "" && len(all) > 0 {
		c.owner = all[0]
	}
}

// again says how objects of the installation of a driver come back. Only what is in this file knows
// how an installation is managed.
func (c *cluster) again(d driver) string {
	switch {
	case c.owner.name != "":
		again := c.owner.command(c.owner.again)
		if c.owner.mark == releaseName {
			again += " --set=" + c.enabled(d)
		}
		return again
	case c.found || c.onOpenShift():
		return "Apply the manifests of the operator again"
	}
	return `Install it again as before; with Helm: helm install openstack-csi "$CHART" --namespace=` +
		d.namespace + " --set=" + c.enabled(d) + ". What CHART is: " + version.Page("docs/helm.md")
}

// enabled returns the values of the one release for a driver, and for all that run without an
// object.
func (c *cluster) enabled(d driver) string {
	var values []string
	for _, one := range c.drivers() {
		_, exists := c.served[one.name]
		if one.name == d.name || !exists && slices.ContainsFunc(c.installed,
			func(o appsv1.Deployment) bool { return o.Name == one.controller }) {
			values = append(values, strings.ToLower(one.title)+".enabled=true")
		}
	}
	return strings.Join(values, ",")
}

// definitions says how missing CustomResourceDefinitions of an operator come back, and then its
// objects.
func (c *cluster) definitions(d driver) string {
	switch again := c.again(d); {
	case strings.Contains(c.owner.mark, "helm"):
		return `Run: helm show crds "$CHART" | kubectl apply --server-side --force-conflicts -f -. ` +
			strings.Replace(again, "Run: ", "Then run: ", 1)
	case c.found && c.owner.name == "":
		return "Run: kubectl apply --server-side --force-conflicts -f crds.yaml, with that file of the " +
			"release. Then apply the manifests of the operator again"
	default:
		return again
	}
}

// releasesOf returns the records of a Helm release, by revision, from the last that was deployed.
func (s *session) releasesOf(
	ctx context.Context, namespace, name string,
) (all []*charts.Release, _ error) {
	for _, secret := range list[corev1.SecretList](ctx, s.guest, client.InNamespace(namespace),
		client.MatchingLabels{"owner": "helm", "name": name}).Items {
		one, err := charts.DecodeRelease(secret.Data["release"])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if s.guest.hidden["Secrets"] {
		return nil, fmt.Errorf("you may not read Secrets in namespace %s, which contain the values of "+
			"release %s: use the permissions of an administrator", namespace, name)
	}
	slices.SortFunc(all, func(a, b *charts.Release) int { return cmp.Compare(a.Version, b.Version) })
	for i, one := range slices.Backward(all) {
		if one.Info.Status == "deployed" {
			return all[i:], nil
		}
	}
	return all, s.failed()
}

// restorer names what would restore the content of a Secret, "" for nothing, and what to do
// instead. The marks of Helm stay on a Secret that a release does not contain any more.
func (s *session) restorer(ctx context.Context, secret *corev1.Secret) (by, next string, _ error) {
	isFree := false
	if name := secret.Annotations[releaseName]; name != "" {
		namespace := cmp.Or(secret.Annotations[releaseNamespace], secret.Namespace)
		all, err := s.releasesOf(ctx, namespace, name)
		if err != nil {
			return "", "", err
		}
		isFree = s.hasNoRelease(ctx, namespace, name) || len(all) > 0 &&
			!slices.ContainsFunc(all, func(r *charts.Release) bool {
				return r.Contains("Secret", secret.Name)
			})
	}
	for _, o := range ownersOf(secret) {
		switch {
		case isFree && strings.Contains(o.mark, "helm"):
		case o.mark != releaseName:
			return o.String(), "change the credentials in what it applies", nil
		default:
			return o.String(), o.command(`run helm upgrade %s "$CHART" --reset-then-reuse-values ` +
				"--set-file=credentials.clouds=clouds.yaml"), nil
		}
	}
	by = s.guest.maker(secret)
	if by == "Helm" && isFree {
		return "", "", nil
	} else if by == "Helm" {
		return by, "change the credentials with helm upgrade", nil
	}
	return by, "change the credentials in what it reads", nil
}

// maker names the object or the program that has made a Secret for itself to update: its owner, a
// label, or the manager of its keys that is no command of a person; "" for none.
func (c *cluster) maker(secret *corev1.Secret) string {
	if c.onOpenShift() { // the cloud credential operator
		return ""
	}
	by := metav1.GetControllerOf(secret)
	if by == nil && len(secret.OwnerReferences) > 0 {
		by = &secret.OwnerReferences[0]
	}
	if by != nil {
		return by.Kind + " " + by.Name + " of " + by.APIVersion
	}
	for _, label := range slices.Sorted(maps.Keys(secret.Labels)) {
		if mark, found := strings.CutSuffix(label, "/managed"); found && secret.Labels[label] == "true" {
			return mark
		}
	}
	for _, m := range secret.ManagedFields {
		if m.FieldsV1 != nil && program.MatchString(m.Manager+" "+m.FieldsV1.GetRawString()) {
			return m.Manager
		}
	}
	return secret.Labels["app.kubernetes.io/managed-by"]
}

// program matches the usual names of controllers as managers of fields, if they write data.
var program = regexp.MustCompile(`^(\S*/\S*|\S*(controller|operator)) .*"f:data"`)
