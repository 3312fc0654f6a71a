package manila

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// Where the operands' manifests mount what the driver reads.
const (
	mountedClouds = "/etc/openstack/clouds.yaml"
	mountedCA     = "/etc/openstack/ca.crt"
	// mountedLegacyCA is from the ConfigMap.
	mountedLegacyCA = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
)

// secretResync repeats what events bring about at once.
const secretResync = 10 * time.Minute

// secretSyncController keeps the driver's Secret a translation of the credentials. When these cannot be understood, the last
// translation stays: the driver goes on with it as long as the cloud accepts it.
type secretSyncController struct {
	operator   v1helpers.OperatorClient
	kube       kubernetes.Interface
	namespace  string
	secrets    corelisters.SecretLister
	configMaps corelisters.ConfigMapLister
}

func newSecretSyncController(s plugin.Surroundings) factory.Controller {
	guest := s.Cluster.Side(bundle.Guest)
	core := guest.Informers.InformersFor(s.Cluster.Placement.Node).Core().V1()
	c := &secretSyncController{
		operator:   s.Cluster.Operator,
		kube:       guest.Kube,
		namespace:  s.Cluster.Placement.Node,
		secrets:    core.Secrets().Lister(),
		configMaps: core.ConfigMaps().Lister(),
	}
	return factory.New().
		WithInformers(s.Cluster.Operator.Informer()).
		WithFilteredEventsInformers(named(credentialsSecret, driverSecret), core.Secrets().Informer()).
		WithFilteredEventsInformers(named(caConfigMap), core.ConfigMaps().Informer()).
		WithSync(c.sync).
		WithSyncDegradedOnError(s.Cluster.Operator).
		ResyncEvery(secretResync).
		ToController("ManilaSecretSyncController", s.Events)
}

// named lets the events of some objects pass.
func named(names ...string) factory.EventFilterFunc {
	return func(obj any) bool {
		object, err := meta.Accessor(obj)
		if err != nil {
			return true // a tombstone: better a sync too many
		}
		for _, name := range names {
			if object.GetName() == name {
				return true
			}
		}
		return false
	}
}

func (c *secretSyncController) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	spec, _, _, err := c.operator.GetOperatorState()
	if err != nil || spec.ManagementState != opv1.Managed {
		return err
	}
	data, err := c.translation()
	if err != nil {
		return err
	}
	required := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: driverSecret},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{},
	}
	for key, value := range data {
		required.Data[key] = []byte(value)
	}
	return c.apply(ctx, syncCtx, required)
}

// translation is what the driver's Secret is to hold.
func (c *secretSyncController) translation() (map[string]string, error) {
	place := fmt.Sprintf("Secret %s/%s", c.namespace, credentialsSecret)
	credentials, err := c.secrets.Secrets(c.namespace).Get(credentialsSecret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s is missing: look at CredentialsRequest manila-csi-drivers, or create it with key %s", place, cloudsKey)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", place, err)
	}
	text, ok := credentials.Data[cloudsKey]
	if !ok {
		return nil, fmt.Errorf("%s has no key %s: add it; the driver keeps the credentials it has", place, cloudsKey)
	}
	cloud, err := openstack.ParseClouds(text, openstack.DefaultCloud)
	if err != nil {
		return nil, fmt.Errorf("key %s of %s %w: correct it; the driver keeps the credentials it has", cloudsKey, place, err)
	}
	ca, err := c.caPath(credentials)
	return translate(cloud, ca), err
}

// caPath is where the driver finds the cloud's CA. The path in clouds.yaml does not count: it is of the host that the cluster
// was installed from.
func (c *secretSyncController) caPath(credentials *corev1.Secret) (string, error) {
	if len(credentials.Data[caKey]) > 0 {
		return mountedCA, nil
	}
	legacy, err := c.configMaps.ConfigMaps(c.namespace).Get(caConfigMap)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading ConfigMap %s/%s: %w", c.namespace, caConfigMap, err)
	}
	if legacy.Data[caConfigMapKey] == "" {
		return "", nil
	}
	return mountedLegacyCA, nil
}

// apply writes the Secret when it differs from the cached one, foreign keys included: the driver refuses keys that exclude each
// other, which is what remains of a change from password to application credential.
func (c *secretSyncController) apply(ctx context.Context, syncCtx factory.SyncContext, required *corev1.Secret) error {
	existing, err := c.secrets.Secrets(c.namespace).Get(driverSecret)
	if err == nil && equalData(existing.Data, required.Data) {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading Secret %s/%s: %w", c.namespace, driverSecret, err)
	}
	_, _, err = resourceapply.ApplySecret(ctx, c.kube.CoreV1(), syncCtx.Recorder(), required)
	return err
}

func equalData(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || string(other) != string(value) {
			return false
		}
	}
	return true
}
