// Package plugin is the contract between the operator core and a driver: what a driver's author writes, and what the core
// does with it. A driver is data and one function of behaviour; it knows neither the core nor other drivers.
package plugin

import (
	"io/fs"

	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// Driver is what a CSI driver brings to the core.
type Driver struct {
	// Name is the CSI driver's and its ClusterCSIDriver's. A companion (NFS) has the name of its leader.
	Name opv1.CSIDriverName
	// ConditionPrefix starts the types of all conditions about the driver's operands. Alerts and CSO know them: MUST NOT change.
	ConditionPrefix string
	// Component is the name under which the operator leads and reports events; "" is the name of its Deployment. It MUST be the name
	// that every other operator of this driver uses, so that an old and a new one never lead together.
	Component string
	// Assets is the driver's asset folder, which holds the generated bundle of each flavour.
	Assets fs.FS
	// Namespace of the operands; "" is flavour.DefaultNamespace.
	Namespace string
	// Removable says that managementState Removed is honoured. It is not where pods could then no longer unmount volumes.
	Removable bool
	// StaleConditions are types that earlier releases left behind. They are removed, also while the driver is disabled.
	StaleConditions []string
	// Setup joins the driver to the cluster. It MUST NOT do I/O or start goroutines; informers it asks for are started later.
	// nil is a driver of assets only.
	Setup func(Dependencies) (Components, error)
}

// Dependencies is what a driver is wired to.
type Dependencies struct {
	Cluster  *cluster.Cluster
	Settings *settings.Settings
	Events   events.Recorder
	// Cloud is where the operator's own access to OpenStack is kept, the CAs that the cluster trusts included.
	Cloud openstack.Source
	// CloudInformers tell of changes of Cloud that are not in files. A controller that asks the cloud MUST wait for them and be
	// woken by them.
	CloudInformers []factory.Informer
	Clock          clock.Clock
}

// Components is the driver's behaviour. Every field is optional.
type Components struct {
	// ControllerHooks changes the Deployment of the controller service, in this order, after the core's own hooks.
	ControllerHooks []hook.Workload
	// NodeHooks changes the DaemonSet of the node service, likewise.
	NodeHooks []hook.Workload
	// CSIDriverHooks changes the CSIDriver object.
	CSIDriverHooks []hook.CSIDriver
	// Controllers run once the gate is open, and from then on.
	Controllers []factory.Controller
	// Credentials tries the driver's own credentials, from when the gate opens; nil is a driver without.
	Credentials *credential.Watcher
	// Ready tells whether what the workloads read at their start is written; nil is yes. The core waits for it a while before it
	// starts them, which saves a rollout.
	Ready func() bool
	// Probe polls OpenStack from the start; nil is a driver that does not need it.
	Probe *cloudprobe.Probe
	// StartWhenAvailable makes the core start the driver, and its companions, when Probe first finds
	// it available. Otherwise they start at once.
	StartWhenAvailable bool
}

// ProbeOptions returns the options of a Probe that every driver of the operator shares.
func (d Dependencies) ProbeOptions(service, fieldManager string) cloudprobe.Options {
	return cloudprobe.Options{
		Service: service, FieldManager: fieldManager, Operator: d.Cluster.Operator, Events: d.Events,
		Clock: d.Clock, Interval: d.Settings.PollInterval,
		TrustedCAs: d.Cloud.TrustedCAs, Informers: d.CloudInformers,
	}
}
