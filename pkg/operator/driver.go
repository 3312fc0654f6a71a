package operator

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// driver is a driver plugin in its cluster.
type driver struct {
	plugin.Driver
	*shared

	bundle    *bundle.Bundle
	csiAddons *csiAddons
	// components are what the Setup function of the plugin returned.
	components plugin.Components
	// snapshotCRD watches the CRD of VolumeSnapshotClasses; nil if the driver has none.
	snapshotCRD *cluster.Trigger
	// initialSyncs is done when all static objects have been applied once.
	initialSyncs *initialSyncs
}

// shared is what the drivers of an operator share.
type shared struct {
	// operatorName is the name of the operator's Deployment.
	operatorName string
	cluster      *cluster.Cluster
	operator     v1helpers.OperatorClientWithFinalizers
	settings     *settings.Settings
	events       events.Recorder
	clock        clock.Clock
	key          *hook.Key
	// choices are those of the leading driver, nil if it has none.
	choices *plugin.Choices
	// trustedCA is the ConfigMap with the trusted CA bundle, among the assets of the leading driver;
	// nil if there is none.
	trustedCA *trustedCA
	// workloads is the number of workloads of all drivers.
	workloads int
	// requests measures the requests to OpenStack.
	requests requestMetric
	// release is the release of a standalone OpenShift, "" if it is unknown. It is set before the
	// workload controllers start.
	release string
	// needed is closed when the drivers are needed.
	needed chan struct{}
}

// service returns the name that starts the types of conditions for administrators.
func (d *driver) service() string {
	if probe := d.components.Probe; probe != nil {
		return probe.Service
	}
	return d.ConditionPrefix
}

// loadBundles loads the bundles of the drivers, and those for CSI-Addons, in the same
// order.
func loadBundles(
	drivers []plugin.Driver, f flavour.Flavour,
) (bundles, addons []*bundle.Bundle, err error) {
	for _, d := range drivers {
		own, err := bundle.Load(d.Assets, f)
		if err != nil {
			return nil, nil, fmt.Errorf("loading assets of driver %q: %w", d.ConditionPrefix, err)
		}
		if err := checkName(d, own); err != nil {
			return nil, nil, err
		}
		addon, err := bundle.LoadCSIAddons(d.Assets, f)
		if err != nil {
			return nil, nil, fmt.Errorf("loading assets for CSI-Addons of driver %q: %w",
				d.ConditionPrefix, err)
		}
		bundles, addons = append(bundles, own), append(addons, addon)
	}
	return bundles, addons, nil
}

// checkName returns an error if the driver's name differs from the CSIDriver among its assets. The
// operator would never find the ClusterCSIDriver under another name.
func checkName(d plugin.Driver, b *bundle.Bundle) error {
	for _, asset := range b.Select(bundle.CSIDriver, flavour.Guest) {
		object, err := metadata(asset)
		if err != nil {
			return err
		}
		if object.Name != string(d.Name) {
			return fmt.Errorf("plugin.Driver %q: field Name is %q, but the CSIDriver in its assets is %q",
				d.ConditionPrefix, d.Name, object.Name)
		}
	}
	return nil
}

// unknownRelease is the value of the placeholder until hook.Release replaces it.
const unknownRelease = "unknown"

// placeholders returns the values of the early placeholders of each side.
func placeholders(
	bundles []*bundle.Bundle, s *settings.Settings, n flavour.Namespaces,
) map[flavour.Side]map[string]string {
	values := map[flavour.Side]map[string]string{}
	for side, names := range bundle.ImageNames(bundles) {
		values[side] = map[string]string{
			bundle.Namespace:         n.ControlPlane,
			bundle.NodeNamespace:     n.Guest,
			bundle.ReleaseVersion:    cmp.Or(s.ReleaseVersion, unknownRelease),
			bundle.OperatorNamespace: n.Operator,
		}
		for name := range names {
			if slices.Contains(bundle.Late(), name) {
				continue
			}
			values[side][name] = s.Images[bundle.ImageVariables(s.Flavour, side, name)[0]]
		}
	}
	return values
}
