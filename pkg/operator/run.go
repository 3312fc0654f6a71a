package operator

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/operator/management"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/host"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// run connects, loads, wires and runs, until ctx is done.
func (o *operator) run(ctx context.Context, process host.Process) error {
	drivers, err := o.assemble(process)
	if err != nil {
		return err
	}
	r := &runner{drivers: drivers}
	if err := r.collect(); err != nil {
		return err
	}
	if err := r.guard(ctx, o.settings.PollInterval, process.Clock); err != nil {
		return err
	}
	r.run(ctx)
	// No error: it would keep the process from giving back its lease.
	return nil
}

// assemble makes the drivers: clients, filled assets, behaviour. It sends nothing.
func (o *operator) assemble(process host.Process) ([]*driver, error) {
	leader := o.drivers[0]
	connected, err := cluster.Connect(cluster.Target{
		ControlPlane: process.Config,
		Guest:        process.Served,
		Flavour:      o.settings.Flavour,
		Namespaces:   o.namespaces,
		Driver:       string(leader.Name),
		Clock:        process.Clock,
	})
	if err != nil {
		return nil, err
	}
	connected.Operator = &generationKeeper{OperatorClientWithFinalizers: newConditionWriter(connected.Operator)}
	if !leader.Removable {
		management.SetOperatorNotRemovable()
	}
	values := placeholders(o.bundles, o.settings, o.namespaces)
	key := &hook.Key{}
	var drivers []*driver
	for i, p := range o.drivers {
		if p.Name != leader.Name || p.Namespace != leader.Namespace {
			return nil, fmt.Errorf("driver %q is no companion of %q: name and namespace differ", p.ConditionPrefix, leader.ConditionPrefix)
		}
		d := &driver{
			Driver: p, operatorName: o.name, cluster: connected, operator: connected.Operator, settings: o.settings,
			events: process.Events, key: key, applied: &firstTimes{},
		}
		if d.bundle, err = o.bundles[i].Fill(values); err != nil {
			return nil, fmt.Errorf("assets of driver %q: %w", p.ConditionPrefix, err)
		}
		drivers = append(drivers, d)
	}
	return drivers, setUpAll(drivers, process)
}

// setUpAll joins the drivers to the cluster. What they know of the cloud and of the trusted CAs is the leader's.
func setUpAll(drivers []*driver, process host.Process) error {
	leader := drivers[0]
	var err error
	if leader.trusted, err = leader.findTrustedCA(); err != nil {
		return err
	}
	cloud := openstack.Source{CloudsFile: leader.settings.CloudsFile, CAFiles: leader.settings.CAFiles}
	if leader.trusted != nil {
		cloud.TrustedCAs = leader.trusted.pem
	}
	for _, d := range drivers {
		if leader.trusted != nil {
			d.trustedCA = leader.trusted.name
		}
		if d.Setup == nil {
			continue
		}
		s := plugin.Dependencies{
			Cluster: d.cluster, Settings: d.settings, Events: d.events,
			Cloud: cloud, CloudInformers: leader.trusted.informers(), Clock: process.Clock,
		}
		if d.components, err = d.Setup(s); err != nil {
			return fmt.Errorf("setting up driver %q: %w", d.ConditionPrefix, err)
		}
		if err := d.components.Validate(); err != nil {
			return fmt.Errorf("setting up driver %q: %w", d.ConditionPrefix, err)
		}
	}
	return nil
}

// deployed tells whether any of the driver's workloads exists where its controllers run; standalone that includes the
// nodes. It reads the API server, because a cache may be empty at first. A hosted cluster's administrator can create a
// DaemonSet of any name, which must not deploy a driver in the management cluster.
func (d *driver) deployed(ctx context.Context) (bool, error) {
	for _, role := range []bundle.Role{bundle.ControllerWorkload, bundle.NodeWorkload} {
		for _, side := range flavour.Sides() {
			if d.cluster.Side(side) != d.cluster.Side(flavour.ControlPlane) {
				continue
			}
			for _, asset := range d.bundle.Select(role, side) {
				found, err := d.exists(ctx, side, asset)
				if found || err != nil {
					return found, err
				}
			}
		}
	}
	return false, nil
}

func (d *driver) exists(ctx context.Context, side flavour.Side, asset bundle.Asset) (bool, error) {
	object, err := metadata(asset)
	if err != nil {
		return false, err
	}
	apps := d.cluster.Side(side).Kube.AppsV1()
	if asset.Role == bundle.ControllerWorkload {
		_, err = apps.Deployments(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	} else {
		_, err = apps.DaemonSets(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("looking for the driver's %s %s/%s: %w", object.Kind, object.Namespace, object.Name, err)
	}
	return err == nil, nil
}
