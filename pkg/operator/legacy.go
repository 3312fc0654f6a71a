package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourcehelper"
	"github.com/openshift/library-go/pkg/operator/staleconditions"

	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// replacementPoll is the interval at which the controller checks whether the operator has written
// the objects that replace the leftovers.
const replacementPoll = time.Second

// leftoverRemoval deletes RBAC objects and Services of earlier releases that no operator owns any
// more. It checks each object once: no other operator creates it again while this one leads.
type leftoverRemoval struct {
	*driver
	// pending are the objects that have not been checked.
	pending []legacy.Leftover
	// bound are the roles to which changed bindings refer.
	bound map[objectName]bool
	// isDeployed is true once the API server has returned a workload of the driver.
	isDeployed bool
	// deployment is the Deployment of the driver.
	deployment cluster.Object[appsv1.Deployment]
}

type objectName struct{ kind, name string }

func (d *driver) legacyController(name string) (factory.Controller, error) {
	generations, err := d.generations()
	leftovers := legacy.Leftovers(generations)
	if err != nil || len(leftovers) == 0 {
		return nil, err
	}
	_, object, err := d.workload(bundle.ControllerWorkload, flavour.ControlPlane)
	if err != nil || object == nil { // each driver with earlier releases has a Deployment
		return nil, err
	}
	r := &leftoverRemoval{
		driver: d, pending: leftovers, bound: map[objectName]bool{},
		deployment: d.cluster.Deployment(flavour.ControlPlane, object.Namespace, object.Name),
	}
	return factory.New().
		WithInformers(d.operator.Informer(), r.deployment.Informer).
		WithSync(cluster.WhileManaged(d.operator, r.sync)).
		WithSyncDegradedOnError(d.operator).
		ToController(name, d.events), nil
}

// sync ends at the first error: it must not delete a role before the bindings to this role.
func (r *leftoverRemoval) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	wait, err := r.mustWait(ctx)
	if err != nil {
		return err
	}
	if wait {
		syncCtx.Queue().AddAfter(syncCtx.QueueKey(), replacementPoll)
		return nil
	}
	for ; len(r.pending) > 0; r.pending = r.pending[1:] {
		if r.isInUse(r.pending[0]) {
			return nil // a change of the Deployment triggers the next sync
		}
		if err := r.remove(ctx, syncCtx.Recorder(), r.pending[0]); err != nil {
			return err
		}
	}
	return nil
}

// mustWait returns true while the driver is deployed and the operator has not yet written the
// objects that replace the leftovers.
func (r *leftoverRemoval) mustWait(ctx context.Context) (bool, error) {
	if len(r.pending) == 0 || r.initialSyncs.done() {
		return false, nil
	}
	var err error
	if !r.isDeployed {
		r.isDeployed, err = r.deployed(ctx)
	}
	return r.isDeployed, err
}

// isInUse returns true while pods may mount the certificate of a Service. Kubernetes deletes the
// Secret with the certificate after the Service, and then such pods cannot start again.
func (r *leftoverRemoval) isInUse(leftover legacy.Leftover) bool {
	secret := servingCertificate(leftover.GetAnnotations())
	if secret == "" {
		return false
	}
	deployment := r.deployment.Get()
	if deployment == nil {
		return false
	}
	mounts := func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == secret }
	return !hook.RolledOut(deployment) ||
		slices.ContainsFunc(deployment.Spec.Template.Spec.Volumes, mounts)
}

// remove deletes an object, unless the object or a binding to it was changed.
func (r *leftoverRemoval) remove(
	ctx context.Context, recorder events.Recorder, leftover legacy.Leftover,
) error {
	kind, name := leftover.GetKind(), leftover.GetName()
	description := r.cluster.Name(leftover.Side, kind, leftover.GetNamespace(), name)
	resource, _ := meta.UnsafeGuessKindToResource(leftover.GroupVersionKind())
	client := r.cluster.Side(leftover.Side).Dynamic.
		Resource(resource).Namespace(leftover.GetNamespace())
	live, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s, which an earlier release left: %w", description, err)
	}
	if reason := r.reasonToKeep(leftover, live); reason != "" {
		klog.FromContext(ctx).Info("Keeping an object of an earlier release", "object", description,
			"reason", reason)
		return nil
	}
	err = client.Delete(ctx, name, metav1.DeleteOptions{
		// The API server refuses the request if the object has changed since it was read.
		Preconditions: &metav1.Preconditions{
			UID: ptr.To(live.GetUID()), ResourceVersion: ptr.To(live.GetResourceVersion()),
		},
	})
	resourcehelper.ReportDeleteEvent(recorder, live, err)
	if err != nil {
		return fmt.Errorf("deleting %s, which an earlier release left: %w", description, err)
	}
	return nil
}

// reasonToKeep returns why an object stays, or "".
func (r *leftoverRemoval) reasonToKeep(
	leftover legacy.Leftover, live *unstructured.Unstructured,
) string {
	if r.bound[objectName{live.GetKind(), live.GetName()}] {
		return "a binding that names it was changed"
	}
	if leftover.Unchanged(live) {
		return ""
	}
	role, _, _ := unstructured.NestedStringMap(live.Object, "roleRef") // roles have none
	r.bound[objectName{role["kind"], role["name"]}] = true
	return "it was changed"
}

// staleConditions returns the controller that removes the conditions that no controller writes any
// more, those of earlier releases, or nil if there are none.
func (d *driver) staleConditions(name string) (factory.Controller, error) {
	generations, err := d.generations()
	if err != nil {
		return nil, err
	}
	types := legacy.StaleConditions(generations)
	if len(types) == 0 {
		return nil, nil
	}
	return staleconditions.NewRemoveStaleConditionsController(name, types, d.operator, d.events), nil
}

func (d *driver) generations() ([]legacy.Generation, error) {
	return legacy.Generations(d.csiDriver, d.cluster.Flavour, d.cluster.Namespaces.ControlPlane)
}
