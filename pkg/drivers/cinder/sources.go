package cinder

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// sources contains the objects from which cloud-conf is generated. All are on the control plane
// side. On HyperShift they exclude the guest cluster, whose administrator must not configure what
// runs in the management cluster.
type sources struct {
	cluster     *cluster.Cluster
	credentials cluster.Object[corev1.Secret]
	// own is the ConfigMap for this driver. installed contains the ConfigMap with which the cluster
	// was installed, and may contain others.
	own       cluster.Object[corev1.ConfigMap]
	choices   *plugin.Choices
	installed coreinformers.ConfigMapInformer
	// infrastructures names the ConfigMap with which the cluster was installed. It is nil on
	// HyperShift, because the administrator of the guest cluster can change it.
	infrastructures *guest.Lister[configv1.Infrastructure]
	// informers report changes of other objects than the Secret and the ConfigMaps.
	informers []factory.Informer
}

func newSources(c *cluster.Cluster) *sources {
	clients, p := c.Side(flavour.ControlPlane), c.Namespaces
	s := &sources{
		cluster:     c,
		credentials: c.Secret(flavour.ControlPlane, p.ControlPlane, credentialsSecret),
		own:         c.ConfigMap(flavour.ControlPlane, p.UserConfig, userConfigMap),
		choices:     plugin.NewChoices(c, userConfigMap, choice.Cinder),
	}
	if c.Flavour == flavour.HyperShift {
		s.installed = clients.ObjectInformers.For(p.UserConfig, p.CloudConfig).Core().V1().ConfigMaps()
		return s
	}
	// Infrastructure may name any ConfigMap.
	s.installed = clients.Informers.InformersFor(p.UserConfig).Core().V1().ConfigMaps()
	s.infrastructures = c.Config.Infrastructures
	s.informers = []factory.Informer{c.Config.Infrastructures.Informer()}
	return s
}

// isCloudConfig selects the events of ConfigMaps with configuration of the cloud.
func (s *sources) isCloudConfig(obj any) bool {
	config, ok := obj.(*corev1.ConfigMap)
	if !ok || config.Name == s.cluster.Namespaces.CloudConfig {
		return true // a tombstone passes too: an unnecessary probe is harmless
	}
	installed, err := s.installedWith()
	return err == nil && config.Name == installed.Name
}

// user reads the administrator's configuration. The ConfigMap for this driver has precedence over
// the one with which the cluster was installed; the latter determines the topology only if the
// former does not exist.
func (s *sources) user() (userConfig, error) {
	reference, err := s.installedWith()
	if err != nil {
		return userConfig{}, err
	}
	own := contentsOf(s.own.Name, s.own.Get())
	installed, cloud := s.data(reference.Name), s.data(s.cluster.Namespaces.CloudConfig)
	user := userConfig{
		config:   own.text(userConfigKey).or(installed.text(reference.Key)),
		topology: own.text(userTopologyKey),
		ca:       cloud.text(bundleKey).or(installed.text(bundleKey)),
		ignored:  ignoredIn(own, installed),
	}
	if !own.exists {
		user.topology = user.topology.or(installed.text(userTopologyKey))
	}
	return user, nil
}

// installedWith returns the ConfigMap and the key with which the cluster was installed, if any. A
// guest cluster has none: the ConfigMap of the hypershift-operator contains only the CA.
func (s *sources) installedWith() (configv1.ConfigMapFileReference, error) {
	if s.infrastructures == nil {
		return configv1.ConfigMapFileReference{}, nil
	}
	found, err := s.infrastructures.Get(guest.ConfigName)
	if apierrors.IsNotFound(err) {
		return configv1.ConfigMapFileReference{}, nil
	}
	if err != nil {
		return configv1.ConfigMapFileReference{},
			fmt.Errorf("reading Infrastructure %s: %w", guest.ConfigName, err)
	}
	return found.Spec.CloudConfig, nil
}

// data reads a ConfigMap with which the cluster may have been installed.
func (s *sources) data(name string) contents {
	namespace := s.cluster.Namespaces.UserConfig
	// The only error of a cache is NotFound.
	found, _ := s.installed.Lister().ConfigMaps(namespace).Get(name)
	return contentsOf(s.cluster.Name(flavour.ControlPlane, "ConfigMap", namespace, name), found)
}

// access returns the name of the entry of clouds.yaml for the driver, and the CA in the driver
// Secret.
func (s *sources) access() (cloud string, ca text, err error) {
	missing, wrong := s.advice()
	secret, credentials := s.credentials.Name, s.credentials.Get()
	if credentials == nil {
		return "", text{}, fmt.Errorf("%s is missing: %s", secret, missing)
	}
	parsed, err := openstack.Secret{Name: secret, Data: credentials.Data}.Entry(openstack.DefaultCloud)
	if err != nil {
		return "", text{}, fmt.Errorf("%w: %s; the driver keeps its present configuration",
			err, wrong)
	}
	ca = text{
		value:  string(credentials.Data[caKey]),
		source: "key " + caKey + " of " + secret, fix: wrong,
	}
	return parsed.Name, ca, nil
}

// advice returns what to do about missing and about wrong credentials.
func (s *sources) advice() (missing, wrong string) {
	const source = "the Secret that the HostedCluster names in spec.platform.openstack.identityRef, "
	if s.cluster.Flavour == flavour.HyperShift {
		return "check " + source + "from which the hypershift-operator creates it",
			"correct " + source + "then delete this copy, which the hypershift-operator creates again"
	}
	return "check CredentialsRequest openstack-cinder-csi-driver-operator, or create the Secret " +
		"with key " + cloudsKey, "correct it"
}
