// Package cinder is the driver plugin for OpenStack's block storage: it generates the CSI driver's cloud.conf, and decides
// whether volumes follow pods into availability zones by comparing the zones of compute and storage. Its caller is the command
// that joins it to the core.
package cinder

import (
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	assets "github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const (
	// Name is the CSI driver's, as StorageClasses and PersistentVolumes know it.
	Name opv1.CSIDriverName = opv1.CinderCSIDriver

	// credentialsSecret is what the cloud credential operator makes in the operand namespace: clouds.yaml, and the cloud's CA
	// under caKey.
	credentialsSecret = "openstack-cloud-credentials"
	cloudsKey         = openstack.CloudsKey
	caKey             = openstack.CAKey

	// configMap is what the CSI driver reads at its start.
	configMap   = "cloud-conf"
	configKey   = "cloud.conf"
	topologyKey = "enable_topology"
	bundleKey   = "ca-bundle.pem"

	// userConfigMap is where an administrator configures the driver, with either key or both: of a hosted cluster the one who
	// has the management cluster.
	userConfigMap   = "cinder-csi-config"
	userConfigKey   = "config"
	userTopologyKey = topologyKey

	userAgent = "openstack-csi-operator"
)

// Driver returns the plugin.
func Driver() plugin.Driver {
	return plugin.Driver{
		Name:            Name,
		ConditionPrefix: "OpenStackCinder",
		Assets:          assets.Assets(),
		StaleConditions: staleConditions(),
		Setup:           setup,
	}
}

func setup(s plugin.Dependencies) (plugin.Components, error) {
	cloud := openstack.NewClient(s.Cloud, userAgent, s.Clock)
	sources := newSources(s.Cluster)
	zones := newZoneTracker(s, cloud)
	accepted := newCredentials(s, cloud)
	config := newConfigSync(s, sources, zones, accepted)
	zones.onChange, zones.deployed = config.enqueue, config.deployed
	return plugin.Components{
		ControllerHooks: inputs(s, flavour.ControlPlane, accepted),
		NodeHooks:       inputs(s, flavour.Guest, accepted),
		Credentials:     accepted,
		Controllers:     []factory.Controller{config},
		Ready:           config.written,
		Probe:           newProbe(s, sources, zones),
	}, nil
}

// newCredentials tries the Secret that the driver reads: the operator's files lag behind it. A login is enough, because projects
// may use Cinder whose policy forbids lists of zones.
func newCredentials(s plugin.Dependencies, own *openstack.Client) *credential.Watcher {
	cloud := credential.Cloud{Own: own, Source: s.Cloud, UserAgent: userAgent, Clock: s.Clock}
	return credential.New(credential.Options{
		Cluster: s.Cluster, Events: s.Events, Clock: s.Clock, Informers: s.CloudInformers,
		Service: service, Secret: credentialsSecret, Open: cloud.Open,
		Wait: s.Settings.CredentialsWait, Interval: s.Settings.PollInterval,
	})
}

// inputs are what the driver reads once, at its start.
func inputs(s plugin.Dependencies, side flavour.Side, accepted hook.Acceptance) []hook.Workload {
	return []hook.Workload{
		hook.CredentialsHash(s.Cluster, side, credentialsSecret, accepted),
		hook.ConfigMapHash(s.Cluster, side, configMap),
	}
}

// staleConditions are what openstack-cinder-csi-driver-operator (up to 4.17) and csi-operator (from 4.18) leave behind.
func staleConditions() []string {
	return []string{
		"OpenStackCinderDeploymentVersionControllerDegraded",
		"ConfigSyncDegraded",
		"StorageClassControllerDegraded",
		"VolumeSnapshotClassControllerDegraded",
		"OpenStackCinderDriverConditionalStaticResourcesControllerDegraded",
		"OpenStackCinderDriverStaticResourcesControllerDegraded",
	}
}
