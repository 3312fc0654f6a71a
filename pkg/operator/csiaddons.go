package operator

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// removalDelay is how long CSI-Addons stays active without its CRD. An update of CSI-Addons may
// replace the CRD, which must not roll out the driver twice.
const removalDelay = 10 * time.Minute

// addonsSidecar is the name of the container of the sidecar.
const addonsSidecar = "csi-addons"

// csiAddons contains the assets of a driver that are new or differ while CSI-Addons is active: its
// images are set, and its CRD exists or did so within removalDelay. A nil value contains none.
type csiAddons struct {
	*shared
	bundle *bundle.Bundle
	// images are the placeholders of the images of its containers.
	images []string
	crd    *cluster.Trigger
	// nodes is the DaemonSet of the driver.
	nodes cluster.Object[appsv1.DaemonSet]

	mu sync.Mutex
	// seen is when the CRD was last known to exist. It is valid if started is true.
	seen    time.Time
	started bool
}

// newCSIAddons returns nil for an empty bundle: the driver does not support CSI-Addons.
func (d *driver) newCSIAddons(assets *bundle.Bundle) (*csiAddons, error) {
	if len(assets.Assets()) == 0 {
		return nil, nil
	}
	_, object, err := d.workload(bundle.NodeWorkload, flavour.Guest)
	if err != nil {
		return nil, err
	}
	crd := d.cluster.Side(flavour.Guest).CRD(bundle.CSIAddonsCRD)
	crd.Optional = true
	c := &csiAddons{
		shared: d.shared, bundle: assets, crd: crd,
		nodes: d.cluster.DaemonSet(flavour.Guest, object.Namespace, object.Name),
	}
	for _, variables := range bundle.AllImageVariables(d.cluster.Flavour, []*bundle.Bundle{assets}) {
		c.images = append(c.images, variables[0])
	}
	return c, nil
}

// containers returns the images of the containers by placeholder, nil unless all are set. It
// returns an error while there are only invalid choices.
func (c *csiAddons) containers() (map[string]string, error) {
	if _, err := c.choices.Current(); err != nil {
		return nil, err
	}
	chosen := c.choices.CSIAddons().Image
	images := map[string]string{}
	for _, name := range c.images {
		images[name] = cmp.Or(c.settings.Images[name], chosen)
		if images[name] == "" {
			return nil, nil
		}
	}
	return images, nil
}

// active returns whether CSI-Addons is active. With invalid choices, which change no workload, this
// is whether it was active before.
func (c *csiAddons) active() bool {
	if c == nil {
		return false
	}
	images, err := c.containers()
	if err != nil {
		return c.deployed()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case images == nil:
		c.seen = time.Time{}
	case c.crd.Exists() || !c.started && c.deployed():
		c.seen = c.clock.Now()
	}
	c.started = true
	return c.clock.Since(c.seen) < removalDelay
}

// ending returns whether CSI-Addons is active without its CRD: no event reports the end.
func (c *csiAddons) ending() bool { return c.active() && !c.crd.Exists() }

// apiServerTokens returns whether the sidecars accept tokens for the API server, as the controller
// of the CSI-Addons for Ceph sends them.
func (s *shared) apiServerTokens() bool {
	return s.settings.CSIAddons.APIServerTokens || s.choices.CSIAddons().APIServerTokens
}

// uses returns whether the driver has an asset of the bundle now.
func (c *csiAddons) uses(asset bundle.Asset) bool {
	return c.active() && (!asset.APIServerTokens || c.apiServerTokens())
}

// deployed returns whether the pods on nodes contain the sidecar.
func (c *csiAddons) deployed() bool {
	nodes := c.nodes.Get()
	return nodes != nil && slices.ContainsFunc(nodes.Spec.Template.Spec.Containers,
		func(container corev1.Container) bool { return container.Name == addonsSidecar })
}

// HasSynced returns whether the caches that active needs are complete.
func (c *csiAddons) HasSynced() bool {
	return c.crd.HasSynced() && c.nodes.HasSynced()
}

// AddEventHandler adds a handler of the events of the CRD.
func (c *csiAddons) AddEventHandler(
	h cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return c.crd.AddEventHandler(h)
}

// informers trigger a sync when the result of active may change, except at the end of removalDelay.
func (c *csiAddons) informers() []factory.Informer {
	if c == nil {
		return nil
	}
	return append(c.choices.Informers(), c)
}

// instead returns the content of the asset that replaces, or patches, another one with this name,
// nil if none does.
func (c *csiAddons) instead(name string) []byte {
	if c == nil {
		return nil
	}
	asset, found := c.bundle.Find(name)
	if !found || !c.uses(asset) {
		return nil
	}
	images, _ := c.containers() // workloads do not change if this is an error
	text := asset.Data
	for placeholder, image := range images {
		text = bytes.ReplaceAll(text, []byte("${"+placeholder+"}"), []byte(image))
	}
	return text
}

// patch returns the hook that patches the workload of an asset, if there is a patch.
func (c *csiAddons) patch(workload string) []hook.Workload {
	if c == nil {
		return nil
	}
	if _, found := c.bundle.Find(workload); !found {
		return nil
	}
	return []hook.Workload{
		hook.Patch(c.cluster, func() []byte { return c.instead(workload) }, c),
	}
}

func (d *driver) csiAddonsHook() hook.Workload {
	return hook.Arguments(addonsSidecar, func() []string {
		if d.apiServerTokens() {
			return []string{"--token-audience="}
		}
		return nil
	})
}
