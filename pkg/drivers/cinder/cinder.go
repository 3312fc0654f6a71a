// Package cinder is the driver plugin of OpenStack's block storage. It generates the cloud.conf of
// the CSI driver, and compares the availability zones of compute and storage to decide whether
// volumes follow pods into zones. It reconciles a StorageClass for each volume type that the
// administrator selects. cmd/cinder-operator passes it to pkg/operator.
package cinder

import (
	"context"

	"github.com/openshift/library-go/pkg/controller/factory"

	assets "github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/zones"
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

	// service starts the names of conditions and events about OpenStack and about credentials.
	service = "Cinder"
	// fieldManager owns the condition reachableType.
	fieldManager  = "CinderZoneWatcher"
	reachableType = service + "CloudReachable"
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
	tracker := newTracker(s, sources, credentials)
	types := newVolumeTypes(s, sources.choices, credentials)
	config := newConfigSync(s, sources, tracker, types, credentials)
	probe := newProbe(s, sources, tracker, types, credentials)
	probe.Client, probe.Quotas = credentials.Client, (*openstack.Client).VolumeQuotas
	probe.Errors, probe.InError = openstack.VolumeErrors(), (*openstack.Client).VolumesInError
	return plugin.Components{
		ControllerHooks: config.controllerHooks(),
		NodeHooks:       config.nodeHooks(),
		Choices:         sources.choices,
		Credentials:     credentials,
		Controllers:     []factory.Controller{config, types},
		Ready:           config.written,
		Probe:           probe,
	}, nil
}

func newTracker(
	s plugin.Dependencies, sources *sources, credentials *credential.Watcher,
) *zones.Tracker {
	return &zones.Tracker{Options: zones.Options{
		Operator: s.Cluster.Operator, Condition: reachableType, Storage: zones.Volumes(),
		Deployed: sources.deployedTopology, Clock: s.Clock, Poll: s.Settings.PollInterval,
		Connect: func(ctx context.Context) (zones.Cloud, error) { return credentials.Client(ctx) },
	}}
}

// newProbe returns the cloud probe, which lists the zones for the tracker, and volume types.
// An accepted login and changed choices cause a probe at once.
func newProbe(
	d plugin.Dependencies, sources *sources, tracker *zones.Tracker, types *volumeTypes,
	credentials credential.Credentials,
) *cloudprobe.Probe {
	o := d.ProbeOptions(service, fieldManager, credentials)
	o.OnTrigger = tracker.Refresh
	o.Triggers = sources.choices.Informers()
	o.Reads = append(sources.informers, sources.deployed.Informer)
	return cloudprobe.New(o, types.after(tracker.Probe))
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
