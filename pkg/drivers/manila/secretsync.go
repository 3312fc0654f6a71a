package manila

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// The manifests of the operands mount these files.
const (
	mountedClouds = "/etc/openstack/clouds.yaml"
	mountedCA     = "/etc/openstack/ca.crt"
	// mountedLegacyCA is the file from the ConfigMap.
	mountedLegacyCA = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
)

// secretSyncController translates the credentials into the Secret that the CSI driver reads. While
// it cannot parse the credentials it keeps the last translation. Both Secrets are beside the nodes.
type secretSyncController struct {
	cluster                 *cluster.Cluster
	namespace               string
	credentials, translated corelisters.SecretNamespaceLister
	// ca is the source instead of the copy, for which the first translation would have to wait.
	ca caSource
	// accepted reports when credentials may be used.
	accepted hook.Acceptance
}

func newSecretSyncController(s plugin.Dependencies, accepted hook.Acceptance) factory.Controller {
	namespace := s.Cluster.Namespaces.Guest
	guest := s.Cluster.Side(flavour.Guest).ObjectInformers
	credentials := guest.For(namespace, credentialsSecret).Core().V1().Secrets()
	translated := guest.For(namespace, driverSecret).Core().V1().Secrets()
	c := &secretSyncController{
		cluster:     s.Cluster,
		namespace:   namespace,
		credentials: credentials.Lister().Secrets(namespace),
		translated:  translated.Lister().Secrets(namespace),
		ca:          newCASource(s.Cluster),
		accepted:    accepted,
	}
	return factory.New().
		WithInformers(s.Cluster.Operator.Informer(), credentials.Informer(), translated.Informer(),
			c.ca.informer, accepted.Informer()).
		WithSync(cluster.WhileManaged(s.Cluster.Operator, c.sync)).
		WithSyncDegradedOnError(s.Cluster.Operator).
		ResyncEvery(resync).
		ToController("ManilaSecretSyncController", s.Events)
}

func (c *secretSyncController) sync(ctx context.Context, syncCtx factory.SyncContext) error {
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

// translation returns the data of the Secret.
func (c *secretSyncController) translation() (map[string]string, error) {
	secret := c.cluster.Name(flavour.Guest, "Secret", c.namespace, credentialsSecret)
	advice := adviceFor(c.cluster)
	credentials, err := c.credentials.Get(credentialsSecret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s is missing: %s", secret, advice.missing)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", secret, err)
	}
	cloud, err := openstack.Secret{Name: secret, Data: credentials.Data}.Entry(openstack.DefaultCloud)
	if err != nil {
		return nil, fmt.Errorf("%w: %s; the driver keeps its present credentials", err, advice.wrong)
	}
	ca, err := c.authority(credentials)
	if err != nil {
		return nil, err
	}
	return translate(cloud, ca), nil
}

// authority returns the CA of the cloud. It ignores the path in clouds.yaml, which refers to the
// host from which the cluster was installed.
func (c *secretSyncController) authority(credentials *corev1.Secret) (authority, error) {
	legacy, err := c.ca.read()
	if err != nil {
		return authority{}, err
	}
	secret := c.cluster.Name(flavour.Guest, "Secret", c.namespace, credentialsSecret)
	ca, place := authority{string(credentials.Data[caKey]), mountedCA}, "key "+caKey+" of "+secret
	switch ca.pem {
	case "":
		ca, place = authority{legacy, mountedLegacyCA}, "key "+caConfigMapKey+" of "+c.ca.place()
	case legacy:
		ca.path = mountedLegacyCA // pods that an earlier release started mount this file, too
	}
	if ca.pem == "" {
		return authority{}, nil
	}
	if err := openstack.CheckCA([]byte(ca.pem)); err != nil {
		return authority{}, fmt.Errorf(
			"%s %w: correct it; the driver keeps its present credentials and CA", place, err)
	}
	return ca, nil
}

// apply updates the Secret if it differs from the cached one. It removes other keys: the driver
// rejects keys that exclude each other, which a change from a password to an application credential
// would leave.
func (c *secretSyncController) apply(
	ctx context.Context, syncCtx factory.SyncContext, required *corev1.Secret,
) error {
	existing, err := c.translated.Get(driverSecret)
	if err == nil && (equalData(existing.Data, required.Data) || c.held()) {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s: %w",
			c.cluster.Name(flavour.Guest, "Secret", c.namespace, driverSecret), err)
	}
	_, _, err = resourceapply.ApplySecret(ctx, c.cluster.Side(flavour.Guest).Kube.CoreV1(),
		syncCtx.Recorder(), required)
	return err
}

// held returns true while OpenStack has not accepted the credentials, which the driver would use at
// its next call.
func (c *secretSyncController) held() bool {
	credentials, err := c.credentials.Get(credentialsSecret)
	return err == nil && c.accepted.Holds(credentials)
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
