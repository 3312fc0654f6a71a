package cinder

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"

	configv1 "github.com/openshift/api/config/v1"
	configlisters "github.com/openshift/client-go/config/listers/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// infrastructure is the name of the one Infrastructure object.
const infrastructure = "cluster"

// sources are where the content of cloud-conf comes from.
type sources struct {
	// secrets and namespace lead to the credentials.
	secrets   corelisters.SecretLister
	namespace string
	// configMaps lead to the administrator's configuration, in cluster.UserConfigNamespace.
	configMaps      corelisters.ConfigMapLister
	infrastructures configlisters.InfrastructureLister
}

func newSources(c *cluster.Cluster) *sources {
	credentials := c.Side(bundle.Controller).Informers.InformersFor(c.Placement.Controller).Core().V1()
	user := c.Side(bundle.Guest).Informers.InformersFor(cluster.UserConfigNamespace).Core().V1()
	return &sources{
		secrets:         credentials.Secrets().Lister(),
		namespace:       c.Placement.Controller,
		configMaps:      user.ConfigMaps().Lister(),
		infrastructures: c.Config.Config().V1().Infrastructures().Lister(),
	}
}

// isUserConfig lets events of the ConfigMaps pass that user reads.
func (s *sources) isUserConfig(obj any) bool {
	config, ok := obj.(*corev1.ConfigMap)
	if !ok || config.Name == userConfigMap {
		return true // a tombstone passes too: better a look too many
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
	own, err := s.data(userConfigMap)
	if err != nil {
		return user, err
	}
	user.config, user.topology = own.text(userConfigKey), own.text(userTopologyKey)
	reference, err := s.installedWith()
	if err != nil || reference.Name == "" {
		return user, err
	}
	installed, err := s.data(reference.Name)
	if err != nil {
		return user, err
	}
	user.ca = installed.text(bundleKey)
	if user.config.value == "" {
		user.config = installed.text(reference.Key)
	}
	return user, nil
}

// installedWith names the ConfigMap and key that the cluster was installed with, if any.
func (s *sources) installedWith() (configv1.ConfigMapFileReference, error) {
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
	name string
	data map[string]string
}

func (s *sources) data(name string) (contents, error) {
	found, err := s.configMaps.ConfigMaps(cluster.UserConfigNamespace).Get(name)
	if apierrors.IsNotFound(err) {
		return contents{name: name}, nil
	}
	if err != nil {
		return contents{}, fmt.Errorf("reading ConfigMap %s/%s: %w", cluster.UserConfigNamespace, name, err)
	}
	return contents{name: name, data: found.Data}, nil
}

func (c contents) text(key string) text {
	return text{
		value: c.data[key],
		place: fmt.Sprintf("key %s of ConfigMap %s/%s", key, cluster.UserConfigNamespace, c.name),
	}
}

// access returns the name of the entry of clouds.yaml that the driver is to use, and the CA that came with the credentials.
func (s *sources) access() (cloud, ca string, err error) {
	place := fmt.Sprintf("Secret %s/%s", s.namespace, credentialsSecret)
	credentials, err := s.secrets.Secrets(s.namespace).Get(credentialsSecret)
	if apierrors.IsNotFound(err) {
		return "", "", fmt.Errorf("%s is missing: look at CredentialsRequest openstack-cinder-csi-driver-operator, or create it with key %s", place, cloudsKey)
	}
	if err != nil {
		return "", "", fmt.Errorf("reading %s: %w", place, err)
	}
	parsed, err := openstack.ParseClouds(credentials.Data[cloudsKey], openstack.DefaultCloud)
	if err != nil {
		return "", "", fmt.Errorf("key %s of %s %w: correct it; the driver keeps the configuration it has", cloudsKey, place, err)
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
