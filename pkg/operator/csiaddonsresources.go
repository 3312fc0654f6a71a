package operator

import (
	"context"
	"errors"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/staleconditions"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// deletionDelay is the time after the first sync before which nothing is deleted: requests to
// install the driver are more urgent, and all have one rate limit.
const deletionDelay = 10 * time.Second

// addonsObjects applies the objects that exist only while CSI-Addons is active. It deletes them
// afterwards, because only the sidecar needs them. Workloads do not wait for them: the sidecar
// repeats requests that the API server refuses.
type addonsObjects struct {
	*driver
	name    string
	assets  []bundle.Asset
	read    resourceapply.AssetFunc
	clients *resourceapply.ClientHolder
	cache   resourceapply.ResourceCache
	// removeConditions removes the conditions of a driver whose images are not set.
	removeConditions factory.SyncFunc
	// deleted contains the names of assets whose objects have been deleted: nothing else creates them.
	deleted map[string]bool
	// began is the time of the first sync.
	began time.Time
	// refused is true if the API server refused a request of the last sync.
	refused bool
}

// csiAddonsResources returns the controller of the objects, and of two conditions: one reports
// whether the operator adds CSI-Addons to the driver, the other one failures. They exist only if
// the images are set.
func (d *driver) csiAddonsResources(name string) (factory.Controller, error) {
	if d.csiAddons == nil {
		return nil, nil
	}
	clients := d.cluster.Side(flavour.Guest)
	r := &addonsObjects{
		driver: d, name: name, assets: d.csiAddonsAssets(), deleted: map[string]bool{},
		cache:   resourceapply.NewResourceCache(),
		clients: (&resourceapply.ClientHolder{}).WithKubernetes(clients.Kube),
	}
	r.removeConditions = staleconditions.NewRemoveStaleConditionsController(name,
		[]string{r.activeType(), r.degradedType()}, d.operator, d.events).Sync
	r.read = d.assetFunc(r.assets)
	return factory.New().
		WithInformers(append(d.csiAddons.informers(), cluster.DelayStatus(d.operator.Informer()))...).
		WithSync(d.cluster.Configuring(r.sync)).
		ResyncEvery(staticResync).
		ToController(name, d.events), nil
}

// csiAddonsAssets returns the assets of the objects that exist only while CSI-Addons is active.
func (d *driver) csiAddonsAssets() []bundle.Asset {
	return slices.DeleteFunc(d.csiAddons.bundle.Assets(), func(asset bundle.Asset) bool {
		_, replaces := d.bundle.Find(asset.Name)
		return replaces
	})
}

func (r *addonsObjects) activeType() string { return r.service() + "CSIAddonsActive" }

func (r *addonsObjects) degradedType() string { return r.name + opv1.OperatorStatusTypeDegraded }

func (r *addonsObjects) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	images, err := r.csiAddons.containers()
	if err != nil {
		return nil //nolint:nilerr // the condition of the choices reports it
	}
	active := r.csiAddons.active()
	if r.csiAddons.ending() {
		syncCtx.Queue().AddAfter(syncCtx.QueueKey(), unsettledResync)
	}
	if r.began.IsZero() {
		r.began = r.csiAddons.clock.Now()
	}
	used, unused := r.split()
	if len(unused) > 0 && r.csiAddons.clock.Since(r.began) < deletionDelay {
		syncCtx.Queue().AddAfter(syncCtx.QueueKey(), deletionDelay)
		unused = nil
	}
	refused, failed := r.write(ctx, syncCtx.Recorder(), used, unused)
	if images == nil {
		return errors.Join(append(failed, r.removeConditions(ctx, syncCtx))...)
	}
	if err := r.csiAddons.crd.Refusal(); err != nil {
		refused = append(refused, err)
	}
	if len(refused) > 0 {
		syncCtx.Queue().AddAfter(syncCtx.QueueKey(), refusedPoll)
		r.reportRefusal(ctx, errors.Join(refused...))
	}
	r.refused = len(refused) > 0
	return errors.Join(append(failed, cluster.ApplyConditions(ctx, r.operator, r.name,
		r.activeCondition(active, refused), r.degradedCondition(refused, failed)))...)
}

func (r *addonsObjects) split() (used, unused []string) {
	for _, asset := range r.assets {
		switch {
		case r.csiAddons.uses(asset):
			used = append(used, asset.Name)
			delete(r.deleted, asset.Name)
		case !r.deleted[asset.Name]:
			unused = append(unused, asset.Name)
		}
	}
	return used, unused
}

// write applies and deletes objects. It returns the errors of an API server that refuses to apply
// an object, and other errors. A binding is not found, and not refused, if its Role was refused.
func (r *addonsObjects) write(
	ctx context.Context, recorder events.Recorder, used, unused []string,
) (refused, failed []error) {
	for _, result := range resourceapply.ApplyDirectly(ctx, r.clients, recorder, r.cache, r.read,
		used...) {
		switch {
		case result.Error == nil:
		case apierrors.IsForbidden(result.Error):
			refused = append(refused, r.failed(flavour.Guest, r.read, result.File, result.Error))
		default:
			failed = append(failed, r.failed(flavour.Guest, r.read, result.File, result.Error))
		}
	}
	if len(refused) > 0 {
		failed = slices.DeleteFunc(failed, apierrors.IsNotFound)
	}
	for _, file := range unused {
		if err := r.remove(ctx, recorder, file); err != nil {
			failed = append(failed, r.failed(flavour.Guest, r.read, file, err))
		} else {
			r.deleted[file] = true
		}
	}
	return refused, failed
}

// remove deletes the object of an asset. One that the operator may not delete counts as absent:
// cluster-storage-operator does not grant it, so the operator has not created it either.
func (r *addonsObjects) remove(ctx context.Context, recorder events.Recorder, file string) error {
	asset, _ := r.csiAddons.bundle.Find(file)
	object, err := metadata(asset)
	if err != nil {
		return err
	}
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	allowed, err := r.cluster.Side(flavour.Guest).May(ctx, authorizationv1.ResourceAttributes{
		Verb: "delete", Group: resource.Group, Resource: resource.Resource,
		Namespace: object.Namespace, Name: object.Name,
	})
	if err != nil || !allowed {
		return err
	}
	return resourceapply.DeleteAll(ctx, r.clients, recorder, r.read, file)[0].Error
}

// reportRefusal reports the first of several refusals in succession.
func (r *addonsObjects) reportRefusal(ctx context.Context, err error) {
	if r.refused {
		return
	}
	klog.FromContext(ctx).Error(err, "The API server refuses requests for CSI-Addons")
	r.events.Warningf("CSIAddonsForbidden", "The API server refuses requests for CSI-Addons, so the "+
		"operator runs the driver without the objects that they are about: %v", err)
}

func (r *addonsObjects) activeCondition(active bool, refused []error) *cluster.Condition {
	switch {
	case len(refused) > 0:
		return cluster.NewCondition(r.activeType(), opv1.ConditionFalse, reasonForbidden,
			"The API server refuses requests for CSI-Addons. "+r.grantAdvice()+"\n"+lines(refused))
	case !active:
		crd := r.cluster.Name(flavour.Guest, "CustomResourceDefinition", "", bundle.CSIAddonsCRD)
		return cluster.NewCondition(r.activeType(), opv1.ConditionFalse, "NoCustomResourceDefinition",
			crd+" does not exist, so the operator does not add CSI-Addons to the driver. Install "+
				"CSI-Addons")
	}
	return cluster.NewCondition(r.activeType(), opv1.ConditionTrue, "AsExpected", r.activeMessage())
}

// reasonForbidden is the reason of both conditions while the API server refuses requests.
const reasonForbidden = "Forbidden"

// degradedCondition returns the condition about failures. Refusals do not make the driver degraded:
// it works without the objects, and the other condition reports them.
func (r *addonsObjects) degradedCondition(refused, failed []error) *cluster.Condition {
	switch {
	case len(failed) > 0:
		return cluster.NewCondition(r.degradedType(), opv1.ConditionTrue, "SyncError",
			lines(append(failed, refused...)))
	case len(refused) > 0:
		return cluster.NewCondition(r.degradedType(), opv1.ConditionFalse, reasonForbidden,
			lines(refused))
	}
	return cluster.NewCondition(r.degradedType(), opv1.ConditionFalse, "AsExpected", "As expected")
}

func lines(errs []error) string { return errors.Join(errs...).Error() }

func (d *driver) activeMessage() string {
	if d.cluster.Flavour.Hosted() {
		return "The operator adds CSI-Addons to the pods on nodes. NetworkFence is not available in a " +
			"guest cluster"
	}
	return "The operator adds CSI-Addons to the pods of the driver"
}

// grantAdvice says which manifest grants the permissions.
func (d *driver) grantAdvice() string {
	if folder := d.cluster.Flavour.ExtraGrants(); folder != "" {
		return "Run `oc apply -k " + folder + "` to grant missing permissions"
	}
	return "The manifests of the operator's release grant missing permissions"
}
