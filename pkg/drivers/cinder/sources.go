package cinder

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/zones"
)

// sources contains the objects from which cloud-conf is generated. All are on the control plane
// side. On HyperShift they exclude the guest cluster, whose administrator must not configure what
// runs in the management cluster.
type sources struct {
	cluster *cluster.Cluster
	choices *plugin.Choices
	// installed contains the ConfigMap with which the cluster was installed, and may contain others.
	// It is nil if the administrator has no ConfigMap.
	installed corelisters.ConfigMapLister
	// infrastructures names the ConfigMap with which the cluster was installed. It is nil on
	// HyperShift, because the administrator of the guest cluster can change it.
	infrastructures *guest.Lister[configv1.Infrastructure]
	// deployed is the cloud-conf of an earlier process or of this one.
	deployed cluster.Object[corev1.ConfigMap]
	// informers report changes of everything except the ConfigMap for this driver and cloud-conf.
	informers []factory.Informer
}

func newSources(c *cluster.Cluster) *sources {
	clients, p := c.Side(flavour.ControlPlane), c.Namespaces
	s := &sources{
		cluster:  c,
		choices:  plugin.NewChoices(c, userConfigMap, choice.Cinder),
		deployed: c.ConfigMap(flavour.ControlPlane, p.ControlPlane, configMap),
	}
	if p.UserConfig == "" {
		return s
	}
	configMaps := clients.ObjectInformers.For(p.UserConfig, p.CloudConfig)
	if !c.Flavour.Hosted() { // Infrastructure may name any ConfigMap
		configMaps = clients.Informers.InformersFor(p.UserConfig)
		s.infrastructures = c.Config.Infrastructures
		s.informers = append(s.informers, s.infrastructures.Informer())
	}
	installed := configMaps.Core().V1().ConfigMaps()
	s.installed = installed.Lister()
	s.informers = slices.Clip(append(s.informers, installed.Informer()))
	return s
}

// user reads the administrator's configuration. The ConfigMap for this driver has precedence over
// the one with which the cluster was installed; the latter determines the topology only if the
// former does not exist.
func (s *sources) user() (userConfig, error) {
	reference, err := s.installedWith()
	if err != nil {
		return userConfig{}, err
	}
	own := contents{s.choices.Get(), s.choices.Name, s.choices.KeyOf}
	installed, cloud := s.data(reference.Name), s.data(s.cluster.Namespaces.CloudConfig)
	user := userConfig{
		config:   own.key(userConfigKey).Or(installed.key(reference.Key)),
		topology: own.key(userTopologyKey),
		on:       s.named("true", choice.Enabled),
		off:      s.named("false", choice.Disabled),
		ca:       cloud.key(bundleKey).Or(installed.key(bundleKey)),
		ignored:  ignoredIn(own, installed),
	}
	if own.ConfigMap == nil {
		user.topology = user.topology.Or(installed.key(userTopologyKey))
	}
	if chosen := s.choices.Config().Topology; user.topology.Value == "" && chosen != "" &&
		chosen != choice.Auto {
		user.topology.Value = strconv.FormatBool(chosen == choice.Enabled)
		user.topology.Source = s.named("topology in "+s.choices.Place(), user.topology.Source)
		user.on, user.off = choice.Enabled, choice.Disabled
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
	var found *corev1.ConfigMap
	if s.installed != nil {
		// The only error of a cache is NotFound.
		found, _ = s.installed.ConfigMaps(namespace).Get(name)
	}
	source := s.cluster.Name(flavour.ControlPlane, "ConfigMap", namespace, name)
	return contents{found, source, func(key string) cluster.Key {
		return cluster.KeyOf(found, source, key)
	}}
}

// deployedTopology returns what the zones determined in an earlier process, nil if that is unknown
// or if the administrator's choice applies.
func (s *sources) deployedTopology() *bool {
	existing := s.deployed.Get()
	user, err := s.user()
	if chosen, _ := user.override(); existing == nil || err == nil && chosen != nil {
		return nil
	}
	return parseBool(existing.Data[topologyKey])
}

// contradictions lists what does not work together with topology in a cloud-conf, with advice.
func (s *sources) contradictions(
	user userConfig, cloudConf map[string]string, listed zones.Lists,
) (found []string) {
	if cloudConf[topologyKey] != "true" || len(listed.Compute) == 0 {
		return nil
	}
	remark := func(format string, values ...any) {
		found = append(found, fmt.Sprintf(format, values...))
	}
	off := fmt.Sprintf("set %s to %s", user.topology.Source, user.off)
	if fault := listed.Fault(); fault != "" && parseBool(user.topology.Value) != nil {
		remark("%s is %s, but %s: pods on nodes in these zones get no volumes. If there are such "+
			"nodes, set it to %s or remove it", user.topology.Source, user.on, fault, user.off)
	}
	if settingsOf(cloudConf[configKey]).BlockStorage.IgnoreVolumeAZ {
		advice := "Remove it or, if servers can attach volumes of every zone, "
		if unserved := listed.Unserved(); unserved != "" { // without it, nothing works there
			advice = "Volumes cannot be in compute zones " + unserved + ": "
		}
		if len(listed.Compute) > 1 {
			remark("%s in %s contradicts topology: pods are scheduled to zones without their volumes. %s",
				s.named("ignore-volume-az", "ignoreVolumeAZ"), user.config.Source, advice+off)
		}
		return found
	}
	config, _ := s.choices.Current()
	for _, misplaced := range listed.Misplaced(config) {
		remark("%s: %s is no zone of servers, so with topology no node can use the volumes: %s",
			s.choices.Place(), misplaced, listed.Instead(off))
	}
	return found
}

// services returns what the driver needs of the cloud, with the configuration of the administrator.
func (s *sources) services() []openstack.Service {
	volumes := openstack.Cinder()
	if user, err := s.user(); err == nil {
		setting := s.named("ignore-volume-microversion = true below ["+userSection+"]",
			"ignoreVolumeMicroversion: true")
		volumes = volumes.Advised(", or write " + setting + " into " + user.config.Source)
		text, _ := driverText([]byte(user.config.Value)) // reported when cloud.conf is generated
		if settingsOf(string(text)).BlockStorage.IgnoreVolumeMicroversion {
			volumes = volumes.AnyMicroversion()
		}
	}
	return []openstack.Service{openstack.Nova(), volumes}
}

// named returns how messages call a setting: as in cloud.conf, or as the field of the object.
func (s *sources) named(setting, field string) string {
	if s.installed != nil {
		return setting
	}
	return field
}

// authority returns the CA of the cloud for credentials without one, and the name of its source.
func (s *sources) authority() (pem, source string, err error) {
	user, err := s.user()
	if err != nil {
		return "", "", err
	}
	pem, err = user.ca.Text()
	return pem, user.ca.Source, err
}
