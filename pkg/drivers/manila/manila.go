// Package manila is the driver plugin for OpenStack's shared file systems: it asks whether the cloud offers Manila, keeps a
// StorageClass per share type, and translates the cloud's credentials into the Secret that the CSI driver reads. Its caller is
// the command that joins it to the core.
package manila

import (
	"context"
	"time"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	assets "github.com/openstack-csi/csi-operator/assets/drivers/manila"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const (
	// Name is the CSI driver's, as StorageClasses and PersistentVolumes know it.
	Name opv1.CSIDriverName = opv1.ManilaCSIDriver
	// Namespace has all operands, standalone the controllers too.
	Namespace = "openshift-manila-csi-driver"

	// credentialsSecret is what the cloud credential operator makes in the operand namespace: clouds.yaml, and the cloud's CA
	// under caKey.
	credentialsSecret = "manila-cloud-credentials"
	cloudsKey         = openstack.CloudsKey
	caKey             = openstack.CAKey
	// caConfigMap is beside the nodes, and standalone the controllers, the copy of the ConfigMap that brings the CA where the
	// credentials do not: see caCopier. The controllers of a hosted control plane find the original beside them.
	caConfigMap    = "cloud-provider-config"
	caConfigMapKey = "ca-bundle.pem"
	// driverSecret is what the CSI driver reads at each call; StorageClasses and the VolumeSnapshotClass name it.
	driverSecret = "csi-manila-secrets"

	// service starts conditions about the cloud and about credentials.
	service   = "Manila"
	userAgent = "openstack-csi-operator"

	// resync repeats what events bring about at once.
	resync = 10 * time.Minute
)

// Driver returns the plugin.
func Driver() plugin.Driver {
	return plugin.Driver{
		Name:            Name,
		ConditionPrefix: "OpenStackManila",
		Component:       "openstack-manila-csi-driver-operator",
		Assets:          assets.Assets(),
		Namespace:       Namespace,
		StaleConditions: staleConditions(),
		Setup:           setup,
	}
}

func setup(s plugin.Dependencies) (plugin.Components, error) {
	cloud := openstack.NewClient(s.Cloud, userAgent, s.Clock)
	classes, copier := newStorageClassController(s), newCACopier(s)
	accepted := newCredentials(s, cloud)
	return plugin.Components{
		ControllerHooks: inputs(s, flavour.ControlPlane, accepted),
		NodeHooks:       inputs(s, flavour.Guest, accepted),
		CSIDriverHooks:  []hook.CSIDriver{hook.FSGroupPolicy(s.Settings.FSGroupPolicy)},
		Controllers:     []factory.Controller{classes, newSecretSyncController(s, accepted), copier},
		Credentials:     accepted,
		Ready:           copier.written,
		Probe:           cloudprobe.New(s.ProbeOptions(service, "Manila-Gate"), listShareTypes(cloud), classes.setShareTypes),
		// The driver is for those clouds that offer Manila.
		StartWhenAvailable: true,
	}, nil
}

// newCredentials tries the Secret that the driver reads: it may differ from the operator's own.
func newCredentials(s plugin.Dependencies, own *openstack.Client) *credential.Watcher {
	cloud := credential.Cloud{
		Own: own, Source: s.Cloud, UserAgent: userAgent, Clock: s.Clock,
		Try: func(ctx context.Context, client *openstack.Client) error {
			_, err := client.ShareTypes(ctx)
			return err
		},
	}
	return credential.New(credential.Options{
		Cluster: s.Cluster, Events: s.Events, Clock: s.Clock, Informers: s.CloudInformers,
		Service: service, Secret: credentialsSecret, Open: cloud.Open,
		Wait: s.Settings.CredentialsWait, Interval: s.Settings.PollInterval,
	})
}

// inputs are what the driver reads once, at its start.
func inputs(s plugin.Dependencies, side flavour.Side, accepted hook.Acceptance) []hook.Workload {
	ca := caConfigMap
	if side == flavour.ControlPlane && s.Cluster.Flavour == flavour.HyperShift {
		ca = s.Cluster.Namespaces.CloudConfig
	}
	return []hook.Workload{
		hook.CredentialsHash(s.Cluster, side, credentialsSecret, accepted),
		hook.ConfigMapHash(s.Cluster, side, ca),
	}
}

// staleConditions are what csi-driver-manila-operator (up to 4.17) and csi-operator (from 4.18) leave behind. A type that ends
// in Disabled would have CSO report the driver as disabled for ever.
func staleConditions() []string {
	return []string{
		"OpenStackManilaDeploymentVersionControllerDegraded",
		"CSIControllerDisabled",
		"StarterControllerDegraded",
		"VolumeSnapshotClassControllerDegraded",
		"OpenStackManilaDriverConditionalStaticResourcesControllerDegraded",
		"ManilaControllerDegraded",
		"SecretSyncDegraded",
		"ManilaDriverStaticResourcesDegraded",
		"ManilaDriverConditionalStaticResourcesControllerDegraded",
		"ManilaDriverControllerServiceControllerAvailable",
		"ManilaDriverControllerServiceControllerProgressing",
		"ManilaDriverControllerServiceControllerDegraded",
		"ManilaDriverNodeServiceControllerAvailable",
		"ManilaDriverNodeServiceControllerProgressing",
		"ManilaDriverNodeServiceControllerDegraded",
		"ManilaDriverServiceMonitorControllerDegraded",
		"ManilaDriverCSIConfigObserverControllerDegraded",
	}
}
