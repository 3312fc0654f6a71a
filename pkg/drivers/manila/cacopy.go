package manila

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// caCopierName is the name of library-go's controller, so that the condition type is still
// ResourceSyncControllerDegraded. That controller copies only within a cluster.
const caCopierName = "ResourceSyncController"

// caSource is the ConfigMap with the CA of the cloud, on the control plane side.
type caSource struct {
	cluster  *cluster.Cluster
	lister   corelisters.ConfigMapNamespaceLister
	informer factory.Informer
}

func newCASource(c *cluster.Cluster) caSource {
	namespace := c.Namespaces.UserConfig
	configMaps := c.Side(flavour.ControlPlane).ObjectInformers.
		For(namespace, c.Namespaces.CloudConfig).Core().V1().ConfigMaps()
	return caSource{
		cluster: c, lister: configMaps.Lister().ConfigMaps(namespace), informer: configMaps.Informer(),
	}
}

func (s caSource) place() string {
	return s.cluster.Name(flavour.ControlPlane, "ConfigMap", s.cluster.Namespaces.UserConfig,
		s.cluster.Namespaces.CloudConfig)
}

// read returns the CA, or "". It ignores the rest of the ConfigMap, which may contain old
// passwords. On HyperShift the provider owns the ConfigMap.
func (s caSource) read() (string, error) {
	source, err := s.lister.Get(s.cluster.Namespaces.CloudConfig)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", s.place(), err)
	}
	return source.Data[caConfigMapKey], nil
}

// caCopier copies the CA to the namespace where the nodes, and standalone the controllers, mount
// it. It deletes the copy if the source contains no CA.
type caCopier struct {
	factory.Controller
	cluster *cluster.Cluster
	source  caSource
	copies  corelisters.ConfigMapNamespaceLister
}

func newCACopier(s plugin.Dependencies) *caCopier {
	namespace := s.Cluster.Namespaces.Guest
	copies := s.Cluster.Side(flavour.Guest).ObjectInformers.
		For(namespace, caConfigMap).Core().V1().ConfigMaps()
	c := &caCopier{
		cluster: s.Cluster,
		source:  newCASource(s.Cluster),
		copies:  copies.Lister().ConfigMaps(namespace),
	}
	c.Controller = factory.New().
		WithInformers(s.Cluster.Operator.Informer(), c.source.informer, copies.Informer()).
		WithSync(cluster.WhileManaged(s.Cluster.Operator, c.sync)).
		WithSyncDegradedOnError(s.Cluster.Operator).
		ResyncEvery(resync).
		ToController(caCopierName, s.Events)
	return c
}

// written reports whether the copy is current. Workloads wait for it, because a changed copy
// triggers a rollout.
func (c *caCopier) written() bool {
	ca, err := c.source.read()
	if err != nil {
		return false
	}
	existing, err := c.copies.Get(caConfigMap)
	if ca == "" {
		return apierrors.IsNotFound(err)
	}
	return err == nil && equalContent(existing, c.required(ca))
}

func (c *caCopier) required(ca string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.cluster.Namespaces.Guest, Name: caConfigMap},
		Data:       map[string]string{caConfigMapKey: ca},
	}
}

func (c *caCopier) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	ca, err := c.source.read()
	if err != nil {
		return err
	}
	namespace := c.cluster.Namespaces.Guest
	copyPlace := c.cluster.Name(flavour.Guest, "ConfigMap", namespace, caConfigMap)
	existing, err := c.copies.Get(caConfigMap)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s: %w", copyPlace, err)
	}
	exists := err == nil
	required := c.required(ca)
	api := c.cluster.Side(flavour.Guest).Kube.CoreV1()
	switch {
	case ca != "" && !(exists && equalContent(existing, required)):
		_, _, err = resourceapply.ApplyConfigMap(ctx, api, syncCtx.Recorder(), required)
	case ca == "" && exists:
		_, _, err = resourceapply.DeleteConfigMap(ctx, api, syncCtx.Recorder(), existing)
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("updating %s, a copy of %s: %w", copyPlace, c.source.place(), err)
	}
	return nil
}

func equalContent(a, b *corev1.ConfigMap) bool {
	return maps.Equal(a.Data, b.Data) && equality.Semantic.DeepEqual(a.BinaryData, b.BinaryData)
}
