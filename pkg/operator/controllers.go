package operator

import (
	"fmt"
	"strings"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
)

// phase is the time at which a controller starts. All controllers run until the operator ends.
type phase int

const (
	// always: the controller starts with the operator.
	always phase = iota
	// driverNeeded: the controller starts as soon as the driver is needed, because OpenStack offers
	// what the driver needs or because the driver is deployed already.
	driverNeeded
	// workloads: the controller starts after those of driverNeeded, when the prerequisites of the
	// driver's pods are met.
	workloads
)

// scope is how often a controller exists.
type scope int

const (
	// perOperator: the controller exists once, for the leading driver.
	perOperator scope = iota
	// perDriver: the controller exists for the leading driver and for each companion driver.
	perDriver
)

// entry describes a controller.
type entry struct {
	// name starts the types of the controller's conditions. In it, * stands for the ConditionPrefix
	// of the driver and "Driver". The driver plugin chooses a name in angle brackets.
	name  string
	phase phase
	scope scope
	build func(d *driver, name string) (factory.Controller, error)
}

// entries lists all controllers of an operator, with what each writes besides conditions about its
// failures. A build function returns nil for a driver without objects that the controller writes.
func entries() []entry {
	return []entry{
		// Log level of the operator's process.
		{"LoggingSyncer", always, perOperator, (*driver).logLevel},
		// status.namespace and status.clusterID outside OpenShift, and condition InstallationValid.
		{"*InstallationController", always, perOperator, (*driver).installation},
		// Condition ManagementStateDegraded.
		{"ManagementState", always, perOperator, (*driver).managementState},
		// Condition Ready, which summarizes the other conditions.
		{"*ReadyController", always, perOperator, (*driver).readyController},
		// Field spec.observedConfig of the ClusterCSIDriver.
		{"*CSIConfigObserverController", always, perOperator, (*driver).configObserver},
		// ConfigMap with the trusted CA bundle, on the control plane side.
		{"*TrustedCAController", always, perOperator, (*driver).trustedCAController},
		// Removes conditions of earlier releases.
		{"*StaleConditions", always, perOperator, (*driver).staleConditions},
		// Deletes RBAC objects and Services of earlier releases.
		{"*LegacyController", always, perOperator, (*driver).legacyController},
		// Conditions <service>CredentialsAccepted and <service>CredentialsExpireSoon.
		{"<service>Credentials", always, perDriver, (*driver).credentials},
		// Conditions <service>CloudReachable, <service>ControllerDisabled and <service>Quota.
		{"<service>CloudProbe", always, perOperator, (*driver).cloudProbe},
		// Condition <service>UserConfigValid.
		{"<service>UserConfig", always, perOperator, (*driver).userConfig},
		// Secret <operator>-hash-key.
		{"*HashKeyController", driverNeeded, perOperator, (*driver).hashKeyController},
		// RBAC, ServiceAccounts, Services, PodDisruptionBudgets, CSIDriver.
		{guestStaticResources, driverNeeded, perDriver, (*driver).guestStaticResources},
		// Static objects in the management cluster (HyperShift).
		{controlPlaneStaticResources, driverNeeded, perDriver, (*driver).controlPlaneStaticResources},
		// RBAC and the NetworkPolicy of the sidecar of CSI-Addons, while its CRD exists, and
		// condition <service>CSIAddonsActive.
		{"*CSIAddonsController", driverNeeded, perDriver, (*driver).csiAddonsResources},
		// VolumeSnapshotClass, while its CRD exists.
		{"*VolumeSnapshotClassController", driverNeeded, perDriver, (*driver).volumeSnapshotClass},
		// Condition <service>SnapshotsServed, while the CRD of VolumeSnapshots exists.
		{"*SnapshotsServed", driverNeeded, perDriver, (*driver).snapshotsServed},
		// ServiceMonitor, while its CRD exists.
		{"*ServiceMonitorController", driverNeeded, perDriver, (*driver).serviceMonitor},
		// StorageClasses among the assets.
		{"*StorageClassController", driverNeeded, perDriver, (*driver).storageClass},
		// Deployment.
		{"*ControllerServiceController", workloads, perDriver, (*driver).controllerService},
		// DaemonSet.
		{"*NodeServiceController", workloads, perDriver, (*driver).nodeService},
	}
}

// buildControllers builds the controllers of all drivers, the leading driver first. The controllers
// of the plugins write objects that depend on the cloud: see the Setup functions in pkg/drivers.
func buildControllers(drivers []*driver) (map[phase][]factory.Controller, error) {
	controllers := map[phase][]factory.Controller{}
	for _, e := range entries() {
		for i, d := range drivers {
			if i > 0 && e.scope == perOperator {
				break
			}
			built, err := e.build(d, d.fullName(e.name))
			if err != nil {
				return nil, fmt.Errorf("building controller %s: %w", d.fullName(e.name), err)
			}
			if built != nil {
				controllers[e.phase] = append(controllers[e.phase], built)
			}
		}
	}
	for _, d := range drivers {
		controllers[driverNeeded] = append(controllers[driverNeeded], d.components.Controllers...)
	}
	return controllers, nil
}

func (d *driver) fullName(name string) string {
	return strings.Replace(name, "*", d.ConditionPrefix+"Driver", 1)
}

func (d *driver) userConfig(string) (factory.Controller, error) {
	return d.components.UserConfig, nil
}

func (d *driver) credentials(string) (factory.Controller, error) {
	if d.components.Credentials == nil {
		return nil, nil
	}
	return d.components.Credentials, nil
}

// cloudProbe returns the controller that polls OpenStack. If the driver waits for OpenStack, it
// also decides when the driver is needed.
func (d *driver) cloudProbe(string) (factory.Controller, error) {
	probe := d.components.Probe
	if probe == nil {
		return nil, nil
	}
	if d.components.StartWhenAvailable {
		probe.Gate = &cloudprobe.Gate{Deployed: d.deployed, Start: func() { close(d.needed) }}
	}
	return probe, nil
}
