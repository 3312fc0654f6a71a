package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// cluster reads objects of an API server, and remembers the kinds that it may not read.
type cluster struct {
	client.WithWatch

	// flavour decides names. recognize sets it; without it they are those of OpenShift.
	flavour flavour.Flavour
	// installed are the Deployments of operators and drivers on Kubernetes, in any namespace.
	installed []appsv1.Deployment
	// served and ids are the namespace of the installation that serves each driver on Kubernetes, and
	// the ID of the cluster, as the status of its object names them.
	served, ids map[string]string
	// owner is what has installed the operators, found whether one of their objects exists.
	owner owner
	found bool
	// of follows the name of a kind in messages.
	of     string
	hidden map[string]bool
	// unserved are the kinds that the API server does not know.
	unserved []string
	logs     logReader
	// resources are the kinds that the API server serves.
	resources discovery.ServerResourcesInterface
	// failed is the first error of find and read, after which they read nothing.
	failed error
}

// recognize sets the flavour: a cluster of OpenShift has an Infrastructure. Without an answer it
// stays as it is, and later requests report why. On Kubernetes it finds the installation.
func (c *cluster) recognize(ctx context.Context) {
	err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, &configv1.Infrastructure{})
	if !apierrors.IsNotFound(err) {
		return
	}
	c.flavour = flavour.Of(false)
	var found appsv1.DeploymentList
	labels := client.MatchingLabels{partLabel: partOf}
	if c.List(ctx, &found, labels) == nil {
		c.installed = found.Items
	}
	c.served, c.ids = map[string]string{}, map[string]string{}
	for _, d := range c.drivers() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(c.kindOf(d))
		if c.Get(ctx, client.ObjectKey{Name: d.name}, object) == nil {
			c.served[d.name], _, _ = unstructured.NestedString(object.Object, "status", "namespace")
			c.ids[d.name], _, _ = unstructured.NestedString(object.Object, "status", "clusterID")
			c.learn(object)
		}
	}
	for _, d := range c.drivers() {
		operator := &appsv1.Deployment{} // that of OLM does not have our labels
		if c.Get(ctx, client.ObjectKey{Namespace: d.operatorIn, Name: d.operator}, operator) == nil {
			c.learn(operator)
		}
	}
}

// newScheme returns the types of all objects that the commands read.
func newScheme() (*runtime.Scheme, error) {
	all, types := runtime.NewScheme(), runtime.SchemeBuilder{
		scheme.AddToScheme, opv1.Install, configv1.Install, snapshotv1.AddToScheme,
		v1alpha1.AddToScheme, apiextensionsv1.AddToScheme,
	}
	return all, types.AddToScheme(all)
}

func connect(config *rest.Config) (client.WithWatch, error) {
	types, err := newScheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: types, Mapper: newMapper()})
}

// newMapper returns the resources of all kinds. So no command needs discovery, whose requests have
// no time limit.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range clusterKinds() {
		mapper.Add(kind, meta.RESTScopeRoot)
	}
	for _, kind := range slices.Concat(namespacedKinds(), userKinds()) {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	for _, kind := range removedKinds() {
		scope := meta.RESTScopeNamespace
		if slices.Contains(clusterKinds(), kind) || kind.Kind == "Namespace" ||
			strings.HasPrefix(kind.Kind, "Cluster") || strings.HasPrefix(kind.Kind, "Validating") {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(kind, scope)
	}
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
		meta.RESTScopeRoot)
	mapper.Add(hostedControlPlane(), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mapper.Add(snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshot"), meta.RESTScopeNamespace)
	return mapper
}

// find reads an object, and returns it; nil if it has no name, does not exist, or may not be read.
// Then its kind becomes hidden. The caller checks failed.
func find[T client.Object](ctx context.Context, from *cluster, namespace, name string, object T) T {
	var none T
	if from.failed != nil || name == "" {
		return none
	}
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if from.failed = from.judge(err, object); err != nil {
		return none
	}
	return object
}

// page is the number of objects in an answer. It bounds the memory in large clusters.
const page = 500

// read reads objects, without what makes many of them large. A list that may not be read is empty,
// and its kind becomes hidden. The caller checks failed.
func (c *cluster) read(ctx context.Context, into client.ObjectList, by ...client.ListOption) {
	var all []runtime.Object
	visit(ctx, c, into, func(object runtime.Object) {
		if node, ok := object.(*corev1.Node); ok {
			node.ManagedFields, node.Status.Images = nil, nil
		}
		all = append(all, object)
	}, by...)
	c.failed = cmp.Or(c.failed, meta.SetList(into, all))
}

// visit calls do for each object of a list, page by page. It fails as read does.
func visit[T runtime.Object](ctx context.Context, from *cluster, list client.ObjectList, do func(T),
	by ...client.ListOption,
) {
	next := list.DeepCopyObject().(client.ObjectList)
	for more := true; more && from.failed == nil; more = next.GetContinue() != "" {
		token := next.GetContinue()
		next = list.DeepCopyObject().(client.ObjectList)
		err := from.List(ctx, next, append(by[:len(by):len(by)], client.Limit(page),
			client.Continue(token))...)
		from.failed = from.judge(err, list)
		found, err := meta.ExtractList(next)
		from.failed = cmp.Or(from.failed, err)
		for _, object := range found {
			do(object.(T))
		}
	}
}

// list reads objects as read does.
func list[L any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, from *cluster, options ...client.ListOption) L {
	var all L
	from.read(ctx, P(&all), options...)
	return all
}

// hostedControlPlanes returns those of a namespace, "" means all. The caller checks failed.
func (c *cluster) hostedControlPlanes(
	ctx context.Context, namespace string,
) []unstructured.Unstructured {
	planes := &unstructured.UnstructuredList{}
	planes.SetGroupVersionKind(hostedControlPlane())
	c.read(ctx, planes, client.InNamespace(namespace))
	return planes.Items
}

// failed returns the error that ends the command, or the first of find and read in any cluster.
func (s *session) failed() error {
	err := s.err
	for _, c := range []*cluster{s.guest, s.management} {
		if c != nil {
			err = cmp.Or(err, c.failed)
		}
	}
	return err
}

// judge returns nil for an object or a kind that does not exist, or may not be read.
func (c *cluster) judge(err error, object runtime.Object) error {
	switch {
	case isUnserved(err):
		c.unserved = append(c.unserved, c.kind(object))
		return nil
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		c.hidden[c.kind(object)] = true
		return nil
	}
	return fmt.Errorf("reading %s%s: %w", c.kind(object), c.of, err)
}

// isUnserved returns whether the API server does not know the kind of an object.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) &&
		apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// kind returns the plural of the kind of an object or list.
func (c *cluster) kind(object runtime.Object) string {
	gvk, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return fmt.Sprintf("%T", object)
	}
	return plural(gvk.Kind)
}
