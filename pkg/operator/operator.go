// Package operator runs the controllers that install and maintain a driver and its companion
// drivers. The commands in cmd/ call it with the driver plugins; controllers.go lists all
// controllers.
package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/management"

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
	// name is the name of the operator's Deployment.
	name    string
	drivers []plugin.Driver
	bundles []*bundle.Bundle
	// csiAddons are the bundles for CSI-Addons.
	csiAddons  []*bundle.Bundle
	settings   *settings.Settings
	namespaces flavour.Namespaces
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
	loaded, err := flags.Load(lookup, bundle.AllImageVariables(flags.Flavour(), bundles),
		bundle.AllImageVariables(flags.Flavour(), addons))
	if err != nil {
		return nil, err
	}
	return &operator{
		name: name, drivers: drivers, bundles: bundles, csiAddons: addons, settings: loaded,
		namespaces: loaded.Flavour.Namespaces(loaded.Namespace, drivers[0].Namespace),
	}, nil
}

// run takes the steps that docs/architecture.md lists after newOperator. It returns when ctx is
// done.
func (o *operator) run(ctx context.Context, process host.Process) error {
	management.SetOperatorNotRemovable()
	connected, err := o.connect(process)
	if err != nil {
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
	r.run(ctx)
	// An error would keep the process from releasing its Lease.
	return nil
}

// connect creates clients and informers. It sends nothing.
func (o *operator) connect(process host.Process) (*cluster.Cluster, error) {
	return cluster.Connect(cluster.Options{
		ControlPlane: process.Config, Guest: process.Served, Clock: process.Clock,
		Flavour: o.settings.Flavour, Namespaces: o.namespaces, Driver: string(o.drivers[0].Name),
		ClusterID: o.settings.ClusterID,
	})
}

// fillAssets returns the drivers, whose assets contain the values of the early placeholders.
func (o *operator) fillAssets(connected *cluster.Cluster, process host.Process) ([]*driver, error) {
	leader := o.drivers[0]
	values := placeholders(slices.Concat(o.bundles, o.csiAddons), o.settings, o.namespaces)
	common := &shared{
		operatorName: o.name, cluster: connected, operator: connected.Operator, settings: o.settings,
		events: process.Events, clock: process.Clock, key: &hook.Key{}, requests: newRequestMetric(),
		needed: make(chan struct{}),
	}
	var drivers []*driver
	for i, p := range o.drivers {
		if p.Name != leader.Name || p.Namespace != leader.Namespace {
			return nil, fmt.Errorf("driver %q is not a companion of %q: name or namespace differs",
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
	return drivers, nil
}

// setUp calls the Setup function of each driver.
func setUp(drivers []*driver) error {
	leader := drivers[0]
	var err error
	if leader.trustedCA, err = leader.findTrustedCA(); err != nil {
		return err
	}
	dependencies := plugin.Dependencies{
		Cluster: leader.cluster, Settings: leader.settings, Events: leader.events,
		Observe: leader.requests.observe, Needed: leader.needed, Clock: leader.clock,
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
		legacyregistry.CustomRegister(newConditionMetric(string(leader.Name), leader.operator)),
	}
	if watcher := leader.components.Credentials; watcher != nil {
		errs = append(errs, watcher.Metrics.RegisterWith(legacyregistry.Register))
	}
	if probe := leader.components.Probe; probe != nil {
		errs = append(errs, probe.Metrics.RegisterWith(legacyregistry.Register))
	}
	return errors.Join(errs...)
}
