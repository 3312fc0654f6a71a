package operator

import (
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/staticresourcecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/host"
)

// removalDelay is how long CSI-Addons stays active without its CRD. An update of CSI-Addons may
// replace the CRD, which must not roll out the driver twice.
const removalDelay = 10 * time.Minute

// csiAddons contains the assets of a driver that are new or differ while CSI-Addons is active: its
// CRD is established, or was within removalDelay. A nil value contains none.
type csiAddons struct {
	bundle *bundle.Bundle
	crd    crdInformer
	// watch is the informer of the CRD. Without permission to watch it, CSI-Addons is not active.
	watch *optionalInformer
	// objects are the informers of the objects that exist only while CSI-Addons is active.
	objects []*optionalInformer
	// handlers are those of the controllers.
	handlers []cache.ResourceEventHandler
	clock    clock.WithDelayedExecution

	mu sync.Mutex
	// lingers is true while CSI-Addons is active, and gone is when the CRD was deleted meanwhile.
	lingers bool
	gone    time.Time
}

// newCSIAddons returns nil for an empty bundle: the driver does not support CSI-Addons, or the
// images are not set.
func newCSIAddons(
	c *cluster.Cluster, assets *bundle.Bundle, p host.Process,
) (*csiAddons, error) {
	if len(assets.Assets()) == 0 {
		return nil, nil
	}
	crd := watchCRD(c, flavour.Guest, bundle.CSIAddonsCRD)
	object := c.Name(flavour.Guest, "CustomResourceDefinition", "", crd.name)
	watch := newOptionalInformer(crd.Informer(), object, p.Clock, p.Events)
	addons := &csiAddons{bundle: assets, crd: crd, watch: watch, clock: p.Clock}
	watch.onRefusal = addons.trigger
	return addons, crd.Informer().SetWatchErrorHandlerWithContext(watch.handle)
}

func (c *csiAddons) active() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.crd.established():
		c.lingers, c.gone = true, time.Time{}
	case c.lingers && c.gone.IsZero():
		c.gone = c.clock.Now()
	case c.lingers:
		c.lingers = c.clock.Since(c.gone) < removalDelay
	}
	return c.lingers
}

// forbidden returns which objects the operator may not watch.
func (c *csiAddons) forbidden() []string {
	var objects []string
	for _, informer := range append([]*optionalInformer{c.watch}, c.objects...) {
		if informer.forbidden() {
			objects = append(objects, "list, watch "+informer.object)
		}
	}
	return objects
}

// HasSynced returns whether the cache of the CRD is complete.
func (c *csiAddons) HasSynced() bool { return c.watch.HasSynced() }

// AddEventHandler adds a handler of the events of the CRD. It repeats the last event after
// removalDelay, when CSI-Addons may not be active any more.
func (c *csiAddons) AddEventHandler(
	h cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	c.handlers = append(c.handlers, h)
	var repeat clock.Timer
	twice := func(handle func()) { // an informer calls a handler once at a time
		c.active() // stores the time
		handle()
		if repeat != nil {
			repeat.Stop()
		}
		repeat = c.clock.AfterFunc(removalDelay, handle)
	}
	return c.watch.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.OnAdd(obj, false) },
		UpdateFunc: func(old, obj any) { twice(func() { h.OnUpdate(old, obj) }) },
		DeleteFunc: func(obj any) { twice(func() { h.OnDelete(obj) }) },
	})
}

// trigger triggers the controllers when the operator may not watch an object.
func (c *csiAddons) trigger() {
	for _, h := range c.handlers {
		h.OnAdd(&metav1.PartialObjectMetadata{}, false)
	}
}

// informers trigger a sync when the results of active and forbidden may change.
func (c *csiAddons) informers() []factory.Informer {
	if c == nil {
		return nil
	}
	return []factory.Informer{c}
}

// instead returns the asset that replaces another one with this name while CSI-Addons is active.
func (c *csiAddons) instead(name string) (bundle.Asset, bool) {
	if c == nil {
		return bundle.Asset{}, false
	}
	return c.bundle.Find(name)
}

// alternative returns the manifest that replaces the manifest of a workload, or nil.
func (c *csiAddons) alternative(workload bundle.Asset) *hook.Alternative {
	asset, ok := c.instead(workload.Name)
	if !ok {
		return nil
	}
	return &hook.Alternative{Manifest: asset.Data, Use: c.active, Informer: c}
}

// csiAddonsHooks returns the hooks of both workloads that configure the sidecar.
func (d *driver) csiAddonsHooks() []hook.Workload {
	if !d.settings.CSIAddons.APIServerTokens {
		return nil
	}
	return []hook.Workload{hook.Arguments("csi-addons", "--token-audience=")}
}

// csiAddonsResources returns the controller of the objects that exist only while CSI-Addons is
// active. It deletes them afterwards, because only the sidecar needs them. Workloads do not wait
// for them: the sidecar repeats requests that the API server refuses.
func (d *driver) csiAddonsResources(name string) (factory.Controller, error) {
	if d.csiAddons == nil {
		return nil, nil
	}
	needed, err := d.csiAddonsPermissions()
	if err != nil {
		return nil, err
	}
	assets := d.csiAddonsAssets()
	f := factory.New().
		WithInformers(cluster.DelayStatus(d.operator.Informer())).
		WithInformers(d.csiAddons.informers()...).
		ResyncEvery(staticResync)
	remain, err := d.watchOptional(f, assets)
	if err != nil {
		return nil, err
	}
	files, read := d.assetFunc(assets)
	clients := d.cluster.Side(flavour.Guest)
	client := cluster.View{
		OperatorClientWithFinalizers: d.operator, Condition: d.excuseForbidden(needed),
	}
	static := staticresourcecontroller.NewStaticResourceController(name, read, nil,
		(&resourceapply.ClientHolder{}).WithKubernetes(clients.Kube).WithDynamicClient(clients.Dynamic),
		client, d.events).
		WithConditionalResources(read, files, d.csiAddons.active, remain)
	return f.WithSync(cluster.WhileManaged(d.operator, static.Sync)).
		ToController(static.Name(), d.events), nil
}

// csiAddonsAssets returns the assets of the objects that exist only while CSI-Addons is active.
func (d *driver) csiAddonsAssets() []bundle.Asset {
	return slices.DeleteFunc(d.csiAddons.bundle.Assets(), func(asset bundle.Asset) bool {
		_, replaces := d.bundle.Find(asset.Name)
		return replaces
	})
}

// watchOptional triggers the controller when an object among the assets changes. It returns a
// function that reports whether objects exist although CSI-Addons is not active.
func (d *driver) watchOptional(f *factory.Factory, assets []bundle.Asset) (func() bool, error) {
	var exist []*cluster.Trigger
	for _, asset := range assets {
		object, err := metadata(asset)
		if err != nil {
			return nil, err
		}
		trigger, err := d.trigger(flavour.Guest, object)
		if err != nil {
			return nil, fmt.Errorf("asset %q: %w", asset.Name, err)
		}
		name := d.cluster.Name(flavour.Guest, object.Kind, object.Namespace, object.Name)
		watch := newOptionalInformer(trigger, name, d.clock, d.events)
		trigger.ListFailed, watch.onRefusal = watch.judge, d.csiAddons.trigger
		d.csiAddons.objects = append(d.csiAddons.objects, watch)
		f.WithFilteredEventsInformers(nameFilter(object.Name), watch)
		exist = append(exist, trigger)
	}
	return func() bool {
		return !d.csiAddons.active() && slices.ContainsFunc(exist, (*cluster.Trigger).Exists)
	}, nil
}
