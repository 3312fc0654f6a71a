// Package manila is the driver plugin of OpenStack's shared file systems. It probes whether the
// cloud offers Manila, reconciles a StorageClass for each share type, and translates the
// credentials into the Secret that the CSI driver reads. cmd/manila-operator passes it to
// pkg/operator.
package manila

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"

	assets "github.com/openstack-csi/csi-operator/assets/drivers/manila"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

const (
	// Namespace contains all operands on the guest side, and standalone the controllers too.
	Namespace = "openshift-manila-csi-driver"

	// credentialsSecret is the driver Secret, on OpenShift. The cloud credential operator creates it;
	// it contains clouds.yaml, and may contain the CA of the cloud.
	credentialsSecret = "manila-cloud-credentials"
	// caConfigMap is the copy of the ConfigMap with the CA, for credentials that do not contain it. It
	// is beside the nodes, and standalone the controllers. The controllers of a hosted control plane
	// read the original.
	caConfigMap    = "cloud-provider-config"
	caConfigMapKey = "ca-bundle.pem"
	// loginSecret is the Secret that the CSI driver reads at each call. The StorageClasses and the
	// VolumeSnapshotClass name it.
	loginSecret = "csi-manila-secrets"

	// controllerName is the name of the Deployment.
	controllerName = "openstack-manila-csi-controllerplugin"

	// userConfigMap has the choices of the administrator, on HyperShift in the management cluster.
	userConfigMap = "manila-csi-config"

	// service starts the names of conditions and events about OpenStack and about credentials.
	service = "Manila"

	// resync is the interval of syncs without an event.
	resync = 10 * time.Minute
)

// Driver returns the driver plugin.
func Driver() plugin.Driver {
	return plugin.Driver{
		Kind:            "ManilaDriver",
		ConditionPrefix: "OpenStackManila",
		Component:       "openstack-manila-csi-driver-operator",
		Assets:          assets.Assets(),
		Namespace:       Namespace,
		Setup:           setup,
	}
}

func setup(s plugin.Dependencies) (plugin.Components, error) {
	choices := plugin.NewChoices(s.Cluster, userConfigMap, choice.Manila)
	options := credential.Options{
		Service: service, Secret: s.SecretName(credentialsSecret), Needed: s.Needed,
		Services: func() []openstack.Service { return []openstack.Service{openstack.Manila()} },
	}
	var copiers []factory.Controller
	if s.Cluster.Namespaces.CloudConfig != "" {
		copier := newCACopier(s)
		copiers = append(copiers, copier)
		options.CA = copier.source.authority
		options.Informers = []factory.Informer{copier.source.Informer}
	}
	credentials := s.NewCredentials(options, "manila-csi-drivers")
	topology := newTopology(s, choices, credentials)
	classes := newStorageClassController(s, topology)
	poll := s.ProbeOptions(service, "Manila-Gate", credentials)
	poll.Triggers, poll.OnTrigger = choices.Informers(), topology.tracker.Refresh
	poll.Reads = []factory.Informer{topology.deployed}
	poll.Client, poll.Quotas = credentials.Client, (*openstack.Client).ShareQuotas
	poll.Errors, poll.InError = openstack.ShareErrors(), (*openstack.Client).SharesInError
	shareTypes := func(ctx context.Context) ([]openstack.Type, error) {
		client, err := credentials.Client(ctx)
		if err != nil {
			return nil, err
		}
		return client.ShareTypes(ctx)
	}
	unused := func() []string {
		return slices.Concat(credentials.Remarks(), classes.Unused(), classes.Defaults(),
			topology.remarks(classes.Controller))
	}
	return plugin.Components{
		ControllerHooks: []hook.Workload{accessRules(s.Settings, choices), topology.hook()},
		NodeHooks:       []hook.Workload{topology.hook(), exportLocations(choices)},
		FSGroupPolicy:   s.Settings.FSGroupPolicy,
		Controllers:     append(copiers, classes, newSecretSyncController(s, credentials)),
		Choices:         choices,
		UserConfig:      choices.Report(s, service, unused),
		Credentials:     credentials,
		Probe: cloudprobe.New(poll, topology.after(listShareTypes(choices, shareTypes)),
			classes.setShareTypes),
		// Most clouds do not offer Manila.
		StartWhenAvailable: true,
	}, nil
}

func accessRules(s *settings.Settings, choices *plugin.Choices) hook.Workload {
	return hook.Arguments("openstack-csi-addons", func() []string {
		limit := cmp.Or(s.CSIAddons.MaxAccessRules, choices.CSIAddons().MaxAccessRules)
		if limit == 0 {
			return nil
		}
		return []string{"--max-access-rules=" + strconv.Itoa(limit)}
	})
}
