// Package cinder is the driver plugin of OpenStack's block storage. It generates the cloud.conf of
// the CSI driver, and compares the availability zones of compute and storage to decide whether
// volumes follow pods into zones. It reconciles a StorageClass for each volume type that the
// administrator selects. cmd/cinder-operator passes it to pkg/operator.
package cinder

import (
	"github.com/openshift/library-go/pkg/controller/factory"

	assets "github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const (
	// credentialsSecret is the driver Secret, on OpenShift. The cloud credential operator creates it;
	// it contains clouds.yaml, and may contain the CA of the cloud.
	credentialsSecret = "openstack-cloud-credentials"

	// loginSecret contains the accepted login under loginKey: the clouds.yaml that the controller of
	// the CSI driver reads when it starts.
	loginSecret = "openstack-cinder-csi-driver-login"
	loginKey    = "login"

	// configMap is the ConfigMap that the CSI driver reads when it starts.
	configMap   = "cloud-conf"
	configKey   = "cloud.conf"
	topologyKey = "enable_topology"
	bundleKey   = "ca-bundle.pem"

	// userConfigMap configures the driver with these keys, and contains the choices. An administrator
	// creates it, on HyperShift the administrator of the management cluster.
	userConfigMap   = "cinder-csi-config"
	userConfigKey   = plugin.CloudConfKey
	userTopologyKey = plugin.TopologyKey
)

// Driver returns the driver plugin.
func Driver() plugin.Driver {
	return plugin.Driver{
		Kind:            "CinderDriver",
		ConditionPrefix: "OpenStackCinder",
		Assets:          assets.Assets(),
		Setup:           setup,
	}
}

func setup(s plugin.Dependencies) (plugin.Components, error) {
	sources := newSources(s.Cluster)
	credentials := s.NewCredentials(credential.Options{
		Service: service, Secret: s.SecretName(credentialsSecret), CA: sources.authority,
		Services:  sources.services,
		Informers: append(sources.informers, sources.choices.Informer),
	}, "openstack-cinder-csi-driver-operator")
	zones := newZoneTracker(s, sources, credentials)
	types := newVolumeTypes(s, sources.choices, credentials)
	config := newConfigSync(s, sources, zones, types, credentials)
	return plugin.Components{
		ControllerHooks: config.controllerHooks(),
		NodeHooks:       config.nodeHooks(),
		Choices:         sources.choices,
		Credentials:     credentials,
		Controllers:     []factory.Controller{config, types},
		Ready:           config.written,
		Probe:           newProbe(s, zones, types, credentials),
	}, nil
}

func (c *configSync) controllerHooks() []hook.Workload {
	return []hook.Workload{
		c.loginHook(), hook.ConfigMapHash(c.cluster, flavour.ControlPlane, configMap),
	}
}

// nodeHooks is controllerHooks for the plugin on the nodes, which does not log in.
func (c *configSync) nodeHooks() []hook.Workload {
	return []hook.Workload{
		hook.ConfigMapHash(c.cluster, flavour.Guest, configMap),
	}
}
