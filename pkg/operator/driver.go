package operator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// driver is a plugin in its cluster: filled assets and behaviour.
type driver struct {
	plugin.Driver
	// operatorName is that of the operator's own Deployment.
	operatorName string
	cluster      *cluster.Cluster
	operator     v1helpers.OperatorClientWithFinalizers
	settings     *settings.Settings
	events       events.Recorder
	bundle       *bundle.Bundle
	components   plugin.Components
	// trustedCA is the name of the ConfigMap into which the cluster network operator puts the trusted CAs; "" is none. The drivers
	// of an operator share the leader's.
	trustedCA string
	// trusted is that ConfigMap, of the leader alone, whose asset it is.
	trusted *trustedCA
	// key makes the hashes of the operator's inputs.
	key *hook.Key
	// applied is done when each static controller has applied all its assets once.
	applied *firstTimes
}

// conditionName is the name of a controller, which its condition types start with.
func (d *driver) conditionName(controller string) string {
	return d.ConditionPrefix + "Driver" + controller
}

// loadBundles loads the drivers' bundles as generated, in the drivers' order: the leader's first. A driver that the core cannot
// work with is an error.
func loadBundles(drivers []plugin.Driver, f flavour.Flavour) ([]*bundle.Bundle, error) {
	var bundles []*bundle.Bundle
	for _, d := range drivers {
		if err := d.Validate(); err != nil {
			return nil, err
		}
		b, err := bundle.Load(d.Assets, f)
		if err != nil {
			return nil, fmt.Errorf("loading assets of driver %q: %w", d.ConditionPrefix, err)
		}
		if err := checkName(d, b); err != nil {
			return nil, err
		}
		bundles = append(bundles, b)
	}
	return bundles, nil
}

// checkName insists that a driver has the name of the CSIDriver among its assets. Under another name its ClusterCSIDriver would
// never be found.
func checkName(d plugin.Driver, b *bundle.Bundle) error {
	for _, asset := range b.Select(bundle.CSIDriver, flavour.Guest) {
		object, err := metadata(asset)
		if err != nil {
			return err
		}
		if object.Name != string(d.Name) {
			return fmt.Errorf("plugin.Driver %q: field Name is %q, but the CSIDriver in its assets is %q", d.ConditionPrefix, d.Name, object.Name)
		}
	}
	return nil
}

// unknownRelease fills a placeholder until hook.Release knows better.
const unknownRelease = "unknown"

// placeholders are the values of the early placeholders of each side.
func placeholders(bundles []*bundle.Bundle, s *settings.Settings, n flavour.Namespaces) map[flavour.Side]map[string]string {
	values := map[flavour.Side]map[string]string{}
	for side, names := range imageNames(bundles) {
		values[side] = map[string]string{
			bundle.Namespace:      n.ControlPlane,
			bundle.NodeNamespace:  n.Guest,
			bundle.ReleaseVersion: cmp.Or(s.ReleaseVersion, unknownRelease),
		}
		for _, name := range names {
			values[side][name] = s.Images[imageVariables(s.Flavour, side, name)[0]]
		}
	}
	return values
}

// gated returns the controllers that run from the moment the gate opens.
func (d *driver) gated() (first, workloads []factory.Controller, err error) {
	static, err := d.static()
	if err != nil {
		return nil, nil, err
	}
	classes, err := d.storageClasses()
	if err != nil {
		return nil, nil, err
	}
	optional, err := d.optional()
	if err != nil {
		return nil, nil, err
	}
	workloads, err = d.workloads()
	own := d.components.Controllers
	if d.components.Credentials != nil {
		own = append([]factory.Controller{d.components.Credentials}, own...)
	}
	return slices.Concat(static, optional, classes, own), workloads, err
}
