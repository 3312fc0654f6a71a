package cinder

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"

	configv1 "github.com/openshift/api/config/v1"
	configlisters "github.com/openshift/client-go/config/listers/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
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
	infrastructures configlisters.InfrastructureLister
	// informers tell of changes that are neither in the Secret nor in the ConfigMaps.
	informers []factory.Informer
}

func newSources(c *cluster.Cluster) *sources {
	clients, p := c.Side(bundle.Controller), c.Placement
	s := &sources{
		cluster:     c,
		credentials: clients.Named.For(p.Controller, credentialsSecret).Core().V1().Secrets(),
		own:         clients.Named.For(p.UserConfig, userConfigMap).Core().V1().ConfigMaps(),
	}
	if c.Flavour == flavour.HyperShift {
		s.installed = clients.Named.For(p.UserConfig, p.CloudConfig).Core().V1().ConfigMaps()
		return s
	}
	// Infrastructure may name any.
	s.installed = clients.Informers.InformersFor(p.UserConfig).Core().V1().ConfigMaps()
	infrastructures := c.Config.Config().V1().Infrastructures()
	s.infrastructures, s.informers = infrastructures.Lister(), []factory.Informer{infrastructures.Informer()}
	return s
}

// isInstalledWith lets events of the ConfigMap pass that the cluster was installed with.
func (s *sources) isInstalledWith(obj any) bool {
	config, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return true // a tombstone: better a look too many
	}
	installed, err := s.installedWith()
	return err == nil && config.Name == installed.Name
}

// text is a piece of configuration, and the place it is from for messages about it.
type text struct {
	value, place string
}

// userConfig is what the administrator asks for.
type userConfig struct {
	// config is a cloud.conf of which one section counts.
	config text
	// topology overrides what the zones say: "true" or "false", "" for what they say.
	topology text
	// ca is the PEM bundle of the cloud's CA, for clouds whose credentials do not bring it.
	ca text
}

// user reads the administrator's configuration: the ConfigMap made for this driver first, then the one that the cluster was
// installed with.
func (s *sources) user() (userConfig, error) {
	var user userConfig
	own, err := s.data(s.own, userConfigMap)
	if err != nil {
		return user, err
	}
	user.config, user.topology = own.text(userConfigKey), own.text(userTopologyKey)
	reference, err := s.installedWith()
	if err != nil || reference.Name == "" {
		return user, err
	}
	installed, err := s.data(s.installed, reference.Name)
	if err != nil {
		return user, err
	}
	user.ca = installed.text(bundleKey)
	if user.config.value == "" && reference.Key != "" {
		user.config = installed.text(reference.Key)
	}
	return user, nil
}

// installedWith names the ConfigMap and key that the cluster was installed with, if any. On HyperShift it is what the
// hypershift-operator makes, of which the CA is for this driver, and no key.
func (s *sources) installedWith() (configv1.ConfigMapFileReference, error) {
	if s.infrastructures == nil {
		return configv1.ConfigMapFileReference{Name: s.cluster.Placement.CloudConfig}, nil
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

// contents is the data of a ConfigMap, empty for one that does not exist.
type contents struct {
	place string
	data  map[string]string
}

func (s *sources) data(configMaps coreinformers.ConfigMapInformer, name string) (contents, error) {
	namespace := s.cluster.Placement.UserConfig
	c := contents{place: s.cluster.Name(bundle.Controller, "ConfigMap", namespace, name)}
	found, err := configMaps.Lister().ConfigMaps(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("reading %s: %w", c.place, err)
	}
	c.data = found.Data
	return c, nil
}

func (c contents) text(key string) text {
	return text{value: c.data[key], place: fmt.Sprintf("key %s of %s", key, c.place)}
}

// access returns the name of the entry of clouds.yaml that the driver is to use, and the CA that came with the credentials.
func (s *sources) access() (cloud, ca string, err error) {
	namespace, advice := s.cluster.Placement.Controller, adviceFor(s.cluster.Flavour)
	secret := s.cluster.Name(bundle.Controller, "Secret", namespace, credentialsSecret)
	credentials, err := s.credentials.Lister().Secrets(namespace).Get(credentialsSecret)
	if apierrors.IsNotFound(err) {
		return "", "", fmt.Errorf("%s is missing: %s", secret, advice.missing)
	}
	if err != nil {
		return "", "", fmt.Errorf("reading %s: %w", secret, err)
	}
	parsed, err := openstack.Secret{Name: secret, Data: credentials.Data}.Entry(openstack.DefaultCloud)
	if err != nil {
		return "", "", fmt.Errorf("%w: %s; the driver keeps the configuration it has", err, advice.wrong)
	}
	return parsed.Name, string(credentials.Data[caKey]), nil
}

// override reads the administrator's word on topology; given is false where there is none.
func (u userConfig) override() (topology, given bool, err error) {
	switch strings.ToLower(strings.TrimSpace(u.topology.value)) {
	case "":
		return false, false, nil
	case "true":
		return true, true, nil
	case "false":
		return false, true, nil
	}
	return false, false, fmt.Errorf("%s is neither true nor false: correct it, or remove it to have the availability zones decide", u.topology.place)
}
