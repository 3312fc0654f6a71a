// Package plugin is the contract between pkg/operator and the driver plugins: what the author of a
// driver provides and what the operator does with it. A plugin consists of data and a Setup
// function; it imports neither pkg/operator nor other plugins.
package plugin

import (
	"cmp"
	"io/fs"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// Driver is a driver plugin.
type Driver struct {
	// Kind is the kind of the object that configures the operator if the cluster is not OpenShift.
	Kind string
	// ConditionPrefix starts the types of all conditions about the driver's operands. It MUST NOT
	// change, because alerts and CSO match the types.
	ConditionPrefix string
	// Component is the name of the Lease and the source of events; "" is the name of the operator's
	// Deployment. It MUST be the same for every operator of this driver, so that an old and a new one
	// are never active at the same time.
	Component string
	// Assets is the driver's asset folder, which contains the generated bundle of each flavour.
	Assets fs.FS
	// Namespace is the namespace of the operands; "" is flavour.DefaultNamespace.
	Namespace string
	// Setup creates the components of the driver. It MUST NOT do I/O or start goroutines; the operator
	// starts the informers later. It is nil for a driver that consists of assets only.
	Setup func(Dependencies) (Components, error)
}

// Dependencies are what a Setup function can use.
type Dependencies struct {
	// Driver is the name of the CSI driver and of its ClusterCSIDriver. The flavour decides it.
	Driver   string
	Cluster  *cluster.Cluster
	Settings *settings.Settings
	Events   events.Recorder
	// TrustedCAs returns the CAs that the cluster trusts, and TrustedCAInformers report their changes.
	// TrustedCAs is nil if there are none.
	TrustedCAs         func() []byte
	TrustedCAInformers []factory.Informer
	// Observe is called after each request to OpenStack.
	Observe func(openstack.Request)
	// Needed is closed when a driver with StartWhenAvailable is needed.
	Needed <-chan struct{}
	Clock  clock.Clock
}

// Components are what a Setup function returns. Every field is optional.
type Components struct {
	// ControllerHooks change the Deployment, in this order, after the hooks of pkg/operator.
	ControllerHooks []hook.Workload
	// NodeHooks change the DaemonSet, likewise.
	NodeHooks []hook.Workload
	// FSGroupPolicy replaces the policy of the CSIDriver among the assets, unless it is "".
	FSGroupPolicy storagev1.FSGroupPolicy
	// Controllers start when the driver is needed.
	Controllers []factory.Controller
	// Choices are the choices of the administrator, with the options of the StorageClasses among the
	// assets. While there are only invalid ones, the workloads of the driver and of its companions
	// stay unchanged.
	Choices *Choices
	// UserConfig reports whether the administrator's configuration is used. It starts with the
	// operator.
	UserConfig factory.Controller
	// Credentials tests the driver Secret from the start.
	Credentials *credential.Watcher
	// Ready returns true if the objects that pods read when they start are written. It is one of the
	// prerequisites of the workload controllers, which saves a rollout.
	Ready func() bool
	// Probe polls OpenStack from the start.
	Probe *cloudprobe.Probe
	// StartWhenAvailable makes the driver and its companions start when Probe first finds the driver
	// available, or when they are deployed already. Otherwise they start immediately.
	StartWhenAvailable bool
}

// SecretName returns the name of the driver Secret, by default the one that it has on OpenShift.
func (d Dependencies) SecretName(onOpenShift string) string {
	return cmp.Or(d.Settings.CredentialsSecret, onOpenShift)
}

// NewCredentials returns the controller that tests the driver Secret. It completes the options,
// except the names, the services and the CA of the driver. request is the CredentialsRequest from
// which OpenShift creates the Secret.
func (d Dependencies) NewCredentials(o credential.Options, request string) *credential.Watcher {
	o.Missing = "create it with key " + clouds.Key
	words := []string{openstack.TheProxy, "Proxy/cluster"}
	if d.Cluster.Config.Proxies == nil {
		words[1] = "the proxy variables of the operator"
	}
	if d.TrustedCAs == nil {
		words = append(words, openstack.OrBundle, "")
	}
	switch {
	case d.Cluster.Flavour.Hosted():
		const source = "the Secret that the HostedCluster names in spec.platform.openstack.identityRef"
		o.Missing = "check " + source + ", from which the hypershift-operator creates it"
		o.Wrong = "Correct " + source +
			", then delete this copy, which the hypershift-operator creates again"
		words = []string{
			openstack.TheSecret, source, openstack.OrBundle,
			", or into the trusted CA bundle of the management cluster (trustedCA of its Proxy/cluster)",
			openstack.TheProxy, "Proxy/cluster of the management cluster",
		}
	case d.Settings.CredentialsSecret == "":
		o.Missing = "check CredentialsRequest " + request + ", or " + o.Missing
	}
	o.Words = strings.NewReplacer(words...)
	o.Cluster, o.Events, o.Clock, o.Interval = d.Cluster, d.Events, d.Clock, d.Settings.PollInterval
	o.TrustedCAs, o.Observe = d.TrustedCAs, d.Observe
	o.Informers = slices.Concat(o.Informers, d.TrustedCAInformers)
	return credential.New(o)
}

// ProbeOptions returns the options of a Probe that every driver of the operator shares.
func (d Dependencies) ProbeOptions(
	service, fieldManager string, access cloudprobe.Access,
) cloudprobe.Options {
	return cloudprobe.Options{
		Service: service, FieldManager: fieldManager, Operator: d.Cluster.Operator, Events: d.Events,
		Clock: d.Clock, Interval: d.Settings.PollInterval, Access: access,
		Driver: d.Driver, Guest: d.Cluster.Side(flavour.Guest),
	}
}
