// Package plugin is the contract between the operator core and a driver: what a driver's author writes, and what the core
// does with it. A driver is data and one function of behaviour; it knows neither the core nor other drivers.
package plugin

import (
	"context"
	"io/fs"

	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

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
	Clock          clock.PassiveClock
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
	// Gate says whether the cloud can serve the driver; nil is open. The leader's gate is also its companions'.
	Gate Gate
}

// Gate says whether the cloud can serve the driver. The core asks at once and then at each poll interval, never twice at a
// time, and writes what it hears into conditions, events and metrics.
type Gate interface {
	// Name is the word that conditions start with: "Manila" makes ManilaControllerDisabled.
	Name() string
	// Check looks at the cloud. It only reads, and MUST return soon after ctx is done. An error means "unknown", not "closed";
	// it MUST be the same text for the same failure, and may be an *UnknownError.
	Check(ctx context.Context) (Verdict, error)
}

// Verdict is what a cloud that answers says.
type Verdict struct {
	// Open: the driver can be installed.
	Open bool
	// Reason and Message say why not. Both are required when the gate is closed.
	Reason, Message string
}

// NotAnsweredYet is the message while the first answer of the cloud is awaited.
const NotAnsweredYet = "OpenStack has not answered yet. If this stays, check the route between cluster and cloud, and Proxy/cluster (on HyperShift the management cluster's)"

// UnknownError is an error of Check with a reason for its condition.
type UnknownError struct {
	Reason, Message string
}

func (u *UnknownError) Error() string { return u.Message }
