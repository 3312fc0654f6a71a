package manila

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	credentials, translated cluster.Object[corev1.Secret]
	// ca is the source instead of the copy, for which the first translation would have to wait.
	ca       caSource
	accepted hook.Acceptance
}

func newSecretSyncController(s plugin.Dependencies, accepted hook.Acceptance) factory.Controller {
	namespace := s.Cluster.Namespaces.Guest
	c := &secretSyncController{
		cluster:     s.Cluster,
		credentials: s.Cluster.Secret(flavour.Guest, namespace, credentialsSecret),
		translated:  s.Cluster.Secret(flavour.Guest, namespace, loginSecret),
		ca:          newCASource(s.Cluster),
		accepted:    accepted,
	}
	return factory.New().
		WithInformers(s.Cluster.Operator.Informer(), c.credentials.Informer, c.translated.Informer,
			c.ca.Informer, accepted.Informer()).
		WithSync(cluster.WhileManaged(s.Cluster.Operator, c.sync)).
		WithSyncDegradedOnError(s.Cluster.Operator).
		ResyncEvery(resync).
		ToController("ManilaSecretSyncController", s.Events)
}

func (c *secretSyncController) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	translated, err := c.translation()
	if err != nil {
		return err
	}
	data := map[string][]byte{}
	for key, value := range translated {
		data[key] = []byte(value)
	}
	// The driver would use credentials that OpenStack has not accepted at its next call.
	if existing := c.translated.Get(); existing != nil &&
		(maps.EqualFunc(existing.Data, data, bytes.Equal) || c.accepted.Holds(c.credentials.Get())) {
		return nil
	}
	// This removes other keys: the driver rejects keys that exclude each other, which a change from a
	// password to an application credential would leave.
	kube := c.cluster.Side(flavour.Guest).Kube.CoreV1()
	_, _, err = resourceapply.ApplySecret(ctx, kube, syncCtx.Recorder(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.cluster.Namespaces.Guest, Name: loginSecret},
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	})
	return err
}

func (c *secretSyncController) translation() (map[string]string, error) {
	missing, wrong := c.advice()
	secret, credentials := c.credentials.Name, c.credentials.Get()
	if credentials == nil {
		return nil, fmt.Errorf("%s is missing: %s", secret, missing)
	}
	cloud, err := openstack.Secret{Name: secret, Data: credentials.Data}.Entry(openstack.DefaultCloud)
	if err != nil {
		return nil, fmt.Errorf("%w: %s; the driver keeps its present credentials", err, wrong)
	}
	ca, err := c.authority(credentials)
	if err != nil {
		return nil, err
	}
	return translate(cloud, ca), nil
}

// advice returns what to do about missing and about wrong credentials.
func (c *secretSyncController) advice() (missing, wrong string) {
	if c.cluster.Flavour == flavour.HyperShift {
		const source = "the Secret that the HostedCluster names in spec.platform.openstack.identityRef, "
		return "check " + source + "from which the hosted-cluster-config-operator creates it",
			"correct " + source + "then delete this copy and " +
				c.cluster.Name(flavour.ControlPlane, "Secret", c.cluster.Namespaces.ControlPlane,
					credentialsSecret) + ", which HyperShift creates again"
	}
	return "check CredentialsRequest manila-csi-drivers, or create the Secret with key " + cloudsKey,
		"correct it"
}

// authority returns the CA of the cloud. It ignores the path in clouds.yaml, which refers to the
// host from which the cluster was installed.
func (c *secretSyncController) authority(credentials *corev1.Secret) (authority, error) {
	legacy, place := c.ca.read(), "key "+caKey+" of "+c.credentials.Name
	ca := authority{string(credentials.Data[caKey]), mountedCA}
	switch ca.pem {
	case "":
		ca, place = authority{legacy, mountedLegacyCA}, "key "+caConfigMapKey+" of "+c.ca.Name
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
