package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// cluster reads objects of an API server, and remembers the kinds that it may not read.
type cluster struct {
	client.Client

	// of follows the name of a kind in messages.
	of     string
	hidden map[string]bool
	logs   logReader
	// failed is the first error of find and read, after which they read nothing.
	failed error
}

// newScheme returns the types of all objects that the commands read.
func newScheme() (*runtime.Scheme, error) {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, opv1.Install, configv1.Install, snapshotv1.AddToScheme,
		v1alpha1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func connect(config *rest.Config) (client.Client, error) {
	types, err := newScheme()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: types, Mapper: newMapper()})
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
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
		meta.RESTScopeRoot)
	mapper.Add(hostedControlPlane(), meta.RESTScopeNamespace)
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

// read reads objects. A list that may not be read is empty, and its kind becomes hidden. The caller
// checks failed.
func (c *cluster) read(ctx context.Context, into client.ObjectList, by ...client.ListOption) {
	if c.failed == nil {
		c.failed = c.judge(c.List(ctx, into, by...), into)
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
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		c.hidden[c.kind(object)] = true
		return nil
	}
	return fmt.Errorf("reading %s%s: %w", c.kind(object), c.of, err)
}

// kind returns the plural of the kind of an object or list.
func (c *cluster) kind(object runtime.Object) string {
	gvk, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return fmt.Sprintf("%T", object)
	}
	return plural(gvk.Kind)
}

// driver contains the names of the objects of a driver. A test compares them with the manifests.
type driver struct {
	// title is the name for people, name that of the ClusterCSIDriver.
	title, name string
	kind        choice.Kind
	// operator is the name of the operator's Deployment, lease that of its Lease.
	operator, lease string
	namespace       string
	controller      string
	nodes           []string
	sidecars        []diagnosis.Sidecar
	credentials     string
	// loginSecret is the Secret that the driver reads, loginOf its data for a login, without the CA.
	loginSecret string
	loginOf     func(*openstack.Login) map[string]string
}

func drivers() []driver {
	return []driver{
		{
			title: "Cinder", name: "cinder.csi.openstack.org", kind: choice.Cinder,
			operator:    "openstack-cinder-csi-driver-operator",
			lease:       "openstack-cinder-csi-driver-operator-lock",
			namespace:   flavour.DefaultNamespace,
			controller:  "openstack-cinder-csi-driver-controller",
			nodes:       []string{"openstack-cinder-csi-driver-node"},
			credentials: "openstack-cloud-credentials",
			loginSecret: "openstack-cinder-csi-driver-login",
			loginOf: func(l *openstack.Login) map[string]string {
				return map[string]string{"login": string(l.CloudsYAML())}
			},
			sidecars: []diagnosis.Sidecar{
				diagnosis.Provisioner, diagnosis.Attacher, diagnosis.Resizer, diagnosis.Snapshotter,
			},
		},
		{
			title: "Manila", name: "manila.csi.openstack.org", kind: choice.Manila,
			operator:    "manila-csi-driver-operator",
			lease:       "openstack-manila-csi-driver-operator-lock",
			namespace:   "openshift-manila-csi-driver",
			controller:  "openstack-manila-csi-controllerplugin",
			nodes:       []string{"openstack-manila-csi-nodeplugin", "csi-nodeplugin-nfsplugin"},
			credentials: "manila-cloud-credentials",
			loginSecret: "csi-manila-secrets",
			loginOf:     (*openstack.Login).ManilaKeys,
			sidecars: []diagnosis.Sidecar{
				diagnosis.Provisioner, diagnosis.Resizer, diagnosis.Snapshotter,
			},
		},
	}
}

// findDriver returns the driver with a name or a title; nil if there is none.
func findDriver(name string) *driver {
	return driverIf(func(d driver) bool { return d.name == name || strings.EqualFold(d.title, name) })
}

// choose returns the driver that the arguments name, by default all.
func choose(args []string) ([]driver, error) {
	if len(args) == 0 {
		return drivers(), nil
	}
	one := findDriver(args[0])
	if one == nil {
		return nil, usage("unknown driver %q: use cinder or manila", args[0])
	}
	return []driver{*one}, nil
}

// driverOf returns the CSI driver of a PersistentVolume, "" if none serves it, or it is nil.
func driverOf(volume *corev1.PersistentVolume) string {
	if volume == nil {
		return ""
	}
	return ptr.Deref(source.Of(volume), corev1.CSIPersistentVolumeSource{}).Driver
}

// workloads returns the names of the workloads of the driver and of its operator.
func (d driver) workloads() []string { return append(d.nodes, d.controller, d.operator) }

// driverIf returns the first driver for which a function is true; nil if there is none.
func driverIf(is func(driver) bool) *driver {
	for _, d := range drivers() {
		if is(d) {
			return &d
		}
	}
	return nil
}
