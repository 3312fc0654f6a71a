package cinder

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// infrastructure is the name of the one Infrastructure object.
const infrastructure = "cluster"

// sources are where the content of cloud-conf comes from. All are on the controller side. On HyperShift nothing in the hosted
// cluster is among them: its administrator must not configure what runs in the management cluster.
type sources struct {
	cluster     *cluster.Cluster
	credentials coreinformers.SecretInformer
	// own is the ConfigMap made for this driver. installed has the one that the cluster was installed with, and may have others.
	own, installed coreinformers.ConfigMapInformer
	// infrastructures say what the cluster was installed with. The one that a hosted cluster has is its administrator's to
	// change, so it is nil on HyperShift.
	infrastructures *guest.Lister[configv1.Infrastructure]
	// informers tell of changes that are neither in the Secret nor in the ConfigMaps.
	informers []factory.Informer
}

func newSources(c *cluster.Cluster) *sources {
	clients, p := c.Side(flavour.ControlPlane), c.Namespaces
	s := &sources{
		cluster:     c,
		credentials: clients.ObjectInformers.For(p.ControlPlane, credentialsSecret).Core().V1().Secrets(),
		own:         clients.ObjectInformers.For(p.UserConfig, userConfigMap).Core().V1().ConfigMaps(),
	}
	if c.Flavour == flavour.HyperShift {
		s.installed = clients.ObjectInformers.For(p.UserConfig, p.CloudConfig).Core().V1().ConfigMaps()
		return s
	}
	// Infrastructure may name any.
	s.installed = clients.Informers.InformersFor(p.UserConfig).Core().V1().ConfigMaps()
	s.infrastructures, s.informers = c.Config.Infrastructures, []factory.Informer{c.Config.Infrastructures.Informer()}
	return s
}

// isCloudConfig lets events of the ConfigMaps pass that are about the cloud.
func (s *sources) isCloudConfig(obj any) bool {
	config, ok := obj.(*corev1.ConfigMap)
	if !ok || config.Name == s.cluster.Namespaces.CloudConfig {
		return true // a tombstone passes as well: better a look too many
	}
	installed, err := s.installedWith()
	return err == nil && config.Name == installed.Name
}

// user reads the administrator's configuration. The ConfigMap made for this driver comes first, then the one that the cluster was
// installed with. The latter decides about topology only where the former does not exist.
func (s *sources) user() (userConfig, error) {
	reference, err := s.installedWith()
	if err != nil {
		return userConfig{}, err
	}
	own, err1 := s.data(s.own, userConfigMap)
	installed, err2 := s.data(s.installed, reference.Name)
	cloud, err3 := s.data(s.installed, s.cluster.Namespaces.CloudConfig)
	user := userConfig{
		config:   own.text(userConfigKey).or(installed.text(reference.Key)),
		topology: own.text(userTopologyKey),
		ca:       cloud.text(bundleKey).or(installed.text(bundleKey)),
		ignored:  ignoredIn(own, installed),
	}
	if !own.exists {
		user.topology = user.topology.or(installed.text(userTopologyKey))
	}
	return user, errors.Join(err1, err2, err3)
}

// installedWith names the ConfigMap and key that the cluster was installed with, if any. A hosted cluster has none: what the
// hypershift-operator makes brings the CA alone.
func (s *sources) installedWith() (configv1.ConfigMapFileReference, error) {
	if s.infrastructures == nil {
		return configv1.ConfigMapFileReference{}, nil
	}
	found, err := s.infrastructures.Get(infrastructure)
	if apierrors.IsNotFound(err) {
		return configv1.ConfigMapFileReference{}, nil
	}
	if err != nil {
		return configv1.ConfigMapFileReference{}, fmt.Errorf("reading Infrastructure %s: %w", infrastructure, err)
	}
	return found.Spec.CloudConfig, nil
}

func (s *sources) data(configMaps coreinformers.ConfigMapInformer, name string) (contents, error) {
	namespace := s.cluster.Namespaces.UserConfig
	c := contents{place: s.cluster.Name(flavour.ControlPlane, "ConfigMap", namespace, name)}
	found, err := configMaps.Lister().ConfigMaps(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("reading %s: %w", c.place, err)
	}
	c.exists, c.data, c.binary = true, found.Data, found.BinaryData
	return c, nil
}

// access returns the name of the entry of clouds.yaml that the driver is to use, and the CA that came with the credentials.
func (s *sources) access() (cloud string, ca text, err error) {
	namespace, advice := s.cluster.Namespaces.ControlPlane, adviceFor(s.cluster.Flavour)
	secret := s.cluster.Name(flavour.ControlPlane, "Secret", namespace, credentialsSecret)
	credentials, err := s.credentials.Lister().Secrets(namespace).Get(credentialsSecret)
	if apierrors.IsNotFound(err) {
		return "", text{}, fmt.Errorf("%s is missing: %s", secret, advice.missing)
	}
	if err != nil {
		return "", text{}, fmt.Errorf("reading %s: %w", secret, err)
	}
	parsed, err := openstack.Secret{Name: secret, Data: credentials.Data}.Entry(openstack.DefaultCloud)
	if err != nil {
		return "", text{}, fmt.Errorf("%w: %s; the driver keeps the configuration it has", err, advice.wrong)
	}
	return parsed.Name, text{value: string(credentials.Data[caKey]), place: "key " + caKey + " of " + secret, fix: advice.wrong}, nil
}
