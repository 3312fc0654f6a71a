// Package operator runs the controllers that install and maintain a driver and its companions. The
// commands in cmd/ call it with the driver plugins; controllers.go lists all controllers.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/management"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/host"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// operator is what a start command runs.
type operator struct {
	// name is the name of the operator's Deployment, and driver that of the CSI driver.
	name, driver string
	drivers      []plugin.Driver
	bundles      []*bundle.Bundle
	// csiAddons are the bundles for CSI-Addons.
	csiAddons  []*bundle.Bundle
	settings   *settings.Settings
	namespaces flavour.Namespaces
}

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
	// csiDriver is the name of the CSI driver and of its ClusterCSIDriver.
	csiDriver string
	cluster   *cluster.Cluster
	operator  v1helpers.OperatorClientWithFinalizers
	settings  *settings.Settings
	events    events.Recorder
	clock     clock.Clock
	key       *hook.Key
	// choices are those of the leading driver, nil if it has none.
	choices *plugin.Choices
	// pods are the options of the pods of all drivers.
	pods podCheck
	// trustedCA is the ConfigMap with the trusted CA bundle, among the assets of the leading driver;
	// nil if there is none.
	trustedCA *trustedCA
	// workloads is the number of workloads of all drivers.
	workloads int
	// serves is this installation, nil on OpenShift.
	serves *installation
	// requests measures the requests to OpenStack.
	requests requestMetric
	// release is the release of a standalone OpenShift, "" if it is unknown. It is set before the
	// workload controllers start.
	release string
	// needed is closed when the drivers are needed.
	needed chan struct{}
}

// newOperator loads the bundles of the drivers, and then the settings, because the bundles
// determine which images are required. lookup reads an environment variable.
func newOperator(
	name string, drivers []plugin.Driver, flags *settings.Flags, lookup func(string) (string, bool),
) (*operator, error) {
	bundles, addons, err := loadBundles(drivers, flags.Flavour())
	if err != nil {
		return nil, err
	}
	csiDriver, err := driverName(bundles[0])
	if err != nil {
		return nil, err
	}
	loaded, err := flags.Load(lookup, bundle.AllImageVariables(flags.Flavour(), bundles),
		bundle.AllImageVariables(flags.Flavour(), addons))
	if err != nil {
		return nil, err
	}
	return &operator{
		name: name, driver: csiDriver, drivers: drivers, bundles: bundles, csiAddons: addons,
		settings: loaded, namespaces: loaded.Flavour.Namespaces(loaded.Namespace, drivers[0].Namespace),
	}, nil
}

// run takes the steps that docs/architecture.md lists after newOperator, until ctx is done.
func (o *operator) run(ctx context.Context, process host.Process) error {
	management.SetOperatorNotRemovable()
	connected, err := o.connect(process)
	if err != nil {
		return err
	}
	if err := mustFitFlavour(ctx, connected); err != nil {
		return err
	}
	drivers, err := o.fillAssets(connected, process)
	if err != nil {
		return err
	}
	if err := setUp(drivers); err != nil {
		return err
	}
	controllers, err := buildControllers(drivers)
	if err != nil {
		return err
	}
	if err := registerMetrics(drivers[0]); err != nil {
		return err
	}
	r := &runner{drivers: drivers, controllers: controllers}
	return drivers[0].serves.run(ctx, r.run)
}

// connect creates clients and informers. It sends nothing.
func (o *operator) connect(process host.Process) (*cluster.Cluster, error) {
	return cluster.Connect(cluster.Options{
		ControlPlane: process.Config, Guest: process.Served, Clock: process.Clock,
		Flavour: o.settings.Flavour, Namespaces: o.namespaces, Driver: o.driver,
		Kind: o.settings.Flavour.Object(o.drivers[0].Kind),
	})
}

// fillAssets returns the drivers, whose assets contain the values of the early placeholders.
func (o *operator) fillAssets(connected *cluster.Cluster, process host.Process) ([]*driver, error) {
	leader := o.drivers[0]
	values := placeholders(slices.Concat(o.bundles, o.csiAddons), o.settings, o.namespaces)
	common := &shared{
		operatorName: o.name, csiDriver: o.driver, cluster: connected,
		operator: connected.Operator, settings: o.settings, events: process.Events, clock: process.Clock,
		key: &hook.Key{}, requests: newRequestMetric(),
		needed: make(chan struct{}), serves: o.newInstallation(connected, process),
	}
	var drivers []*driver
	for i, p := range o.drivers {
		if p.Namespace != leader.Namespace {
			return nil, fmt.Errorf("driver %q is not a companion of %q: the namespace differs",
				p.ConditionPrefix, leader.ConditionPrefix)
		}
		filled, err := o.bundles[i].Fill(values)
		if err != nil {
			return nil, fmt.Errorf("assets of driver %q: %w", p.ConditionPrefix, err)
		}
		addons, err := o.csiAddons[i].Fill(values)
		if err != nil {
			return nil, fmt.Errorf("assets for CSI-Addons of driver %q: %w", p.ConditionPrefix, err)
		}
		d := &driver{Driver: p, shared: common, bundle: filled, initialSyncs: &initialSyncs{}}
		if d.csiAddons, err = d.newCSIAddons(addons); err != nil {
			return nil, fmt.Errorf("watching CSI-Addons for driver %q: %w", p.ConditionPrefix, err)
		}
		drivers = append(drivers, d)
	}
	var err error
	connected.Labels, err = drivers[0].commonLabels()
	return drivers, err
}

func setUp(drivers []*driver) error {
	leader := drivers[0]
	var err error
	if leader.trustedCA, err = leader.findTrustedCA(); err != nil {
		return err
	}
	dependencies := plugin.Dependencies{
		Driver: leader.csiDriver, Cluster: leader.cluster, Settings: leader.settings,
		Events: leader.events, Observe: leader.requests.observe, Needed: leader.needed,
		Clock: leader.clock,
	}
	if ca := leader.trustedCA; ca != nil {
		dependencies.TrustedCAs = ca.pem
		dependencies.TrustedCAInformers = []factory.Informer{ca.Informer}
	}
	for _, d := range drivers {
		d.workloads += len(d.bundle.Select(bundle.ControllerWorkload, flavour.ControlPlane)) +
			len(d.bundle.Select(bundle.NodeWorkload, flavour.Guest))
		if d.Setup == nil {
			continue
		}
		if d.components, err = d.Setup(dependencies); err != nil {
			return fmt.Errorf("setting up driver %q: %w", d.ConditionPrefix, err)
		}
	}
	leader.choices = leader.components.Choices
	return nil
}

func registerMetrics(leader *driver) error {
	errs := []error{
		legacyregistry.Register(leader.requests.duration),
		legacyregistry.CustomRegister(newConditionMetric(leader.csiDriver, leader.operator)),
	}
	if watcher := leader.components.Credentials; watcher != nil {
		errs = append(errs, watcher.Metrics.RegisterWith(legacyregistry.Register))
	}
	if probe := leader.components.Probe; probe != nil {
		errs = append(errs, probe.Metrics.RegisterWith(legacyregistry.Register))
	}
	return errors.Join(errs...)
}

// service returns the name that starts the types of conditions for administrators.
func (d *driver) service() string {
	if probe := d.components.Probe; probe != nil {
		return probe.Service
	}
	return d.ConditionPrefix
}

// loadBundles loads the bundles of the drivers and, in the same order, those for CSI-Addons.
func loadBundles(
	drivers []plugin.Driver, f flavour.Flavour,
) (bundles, addons []*bundle.Bundle, err error) {
	for _, d := range drivers {
		own, err := bundle.Load(d.Assets, f)
		if err != nil {
			return nil, nil, fmt.Errorf("loading assets of driver %q: %w", d.ConditionPrefix, err)
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

// driverName returns the name of the CSI driver in the flavour, which its CSIDriver has.
func driverName(leader *bundle.Bundle) (string, error) {
	found := leader.Select(bundle.CSIDriver, flavour.Guest)
	if len(found) == 0 {
		return "", errors.New("the assets of the first driver contain no CSIDriver")
	}
	object, err := metadata(found[0])
	if err != nil {
		return "", err
	}
	return object.Name, nil
}

// unknownRelease is the value of the placeholder until hook.Release replaces it.
const unknownRelease = "unknown"

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
