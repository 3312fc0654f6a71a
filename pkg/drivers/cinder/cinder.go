// Package cinder is the driver plugin of OpenStack's block storage. It generates the cloud.conf of
// the CSI driver, and compares the availability zones of compute and storage to decide whether
// volumes follow pods into zones. It reconciles a StorageClass for each volume type that the
// administrator selects. cmd/cinder-operator passes it to pkg/operator.
package cinder

import (
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	assets "github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const (
	// Name is the name of the CSI driver in StorageClasses and PersistentVolumes.
	Name opv1.CSIDriverName = opv1.CinderCSIDriver

	// credentialsSecret is the driver Secret. The cloud credential operator creates it; it contains
	// clouds.yaml, and the CA of the cloud under caKey.
	credentialsSecret = "openstack-cloud-credentials"
	cloudsKey         = openstack.CloudsKey
	caKey             = openstack.CAKey

	// configMap is the ConfigMap that the CSI driver reads when it starts.
	configMap   = "cloud-conf"
	configKey   = "cloud.conf"
	topologyKey = "enable_topology"
	bundleKey   = "ca-bundle.pem"

	// userConfigMap configures the driver with these keys, and contains the choices. An administrator
	// creates it, on HyperShift the administrator of the management cluster.
	userConfigMap   = "cinder-csi-config"
	userConfigKey   = "config"
	userTopologyKey = topologyKey
)

// Driver returns the driver plugin.
func Driver() plugin.Driver {
	return plugin.Driver{
		Name:            Name,
		ConditionPrefix: "OpenStackCinder",
		Assets:          assets.Assets(),
		UserConfigMap:   userConfigMap,
		ChoiceKind:      choice.Cinder,
		Setup:           setup,
	}
}

func setup(s plugin.Dependencies) (plugin.Components, error) {
	cloud := openstack.NewClient(s.Cloud, s.Clock)
	sources := newSources(s.Cluster)
	zones := newZoneTracker(s, cloud)
	// A login suffices: a policy may allow a project to use Cinder but not to list its zones.
	accepted := s.NewCredentials(service, credentialsSecret, cloud, nil)
	types := newVolumeTypes(s, sources.choices, cloud)
	config := newConfigSync(s, sources, zones, accepted)
	config.types, types.onChange = types, config.enqueue
	zones.onChange, zones.deployed = config.enqueue, config.deployed
	return plugin.Components{
		ControllerHooks: inputs(s, flavour.ControlPlane, accepted),
		NodeHooks:       inputs(s, flavour.Guest, accepted),
		Choices:         sources.choices,
		Credentials:     accepted,
		Controllers:     []factory.Controller{config, types},
		Ready:           config.written,
		Probe:           newProbe(s, sources, zones, types),
	}, nil
}

// inputs returns the hooks for the rollout inputs: what the driver reads only when it starts.
func inputs(s plugin.Dependencies, side flavour.Side, accepted hook.Acceptance) []hook.Workload {
	return []hook.Workload{
		hook.CredentialsHash(s.Cluster, side, credentialsSecret, accepted),
		hook.ConfigMapHash(s.Cluster, side, configMap),
	}
}
