package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// unknownInterval is the time after which a claim is checked again whose driver is not known to
// reclaim space.
const unknownInterval = 5 * time.Minute

// cronJobSuffix follows the name of the claim in the name of its ReclaimSpaceCronJob. The
// CSI-Addons for Ceph uses the same name if its schedules come from StorageClasses.
const cronJobSuffix = "-reclaimspace"

// Claims maintains a ReclaimSpaceCronJob for each PersistentVolumeClaim that has a schedule by an
// annotation. It never writes to a claim.
type Claims struct {
	Client client.Client
	// Live reads from the API server, without a cache.
	Live    client.Reader
	Drivers connection.Drivers
	// Precedence says whose annotations count.
	Precedence Precedence
	Events     events.EventRecorder
}

// Reconcile creates, changes or deletes the ReclaimSpaceCronJob of a claim. It changes nothing
// while the claim has no volume, and Kubernetes deletes the object together with the claim.
func (c *Claims) Reconcile(ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.Client.Get(ctx, request.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound {
		return reconcile.Result{}, nil
	}
	found, err := c.cronJobs(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted, err := c.wanted(ctx, claim, found.kept)
	var after time.Duration
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case wanted.unknown:
		return reconcile.Result{}, nil
	case wanted.schedule == "" && found.kept != nil:
		found.surplus = append(found.surplus, found.kept)
	case wanted.schedule != "" && found.kept != nil:
		err = c.change(ctx, found.kept, wanted)
	case wanted.schedule != "" && !found.foreign:
		after, err = c.create(ctx, claim, wanted)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, surplus := range found.surplus {
		if err := c.remove(ctx, surplus); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// schedules are the ReclaimSpaceCronJobs that belong to a claim.
type schedules struct {
	// kept is the one that the controller maintains, or nil.
	kept *v1alpha1.ReclaimSpaceCronJob
	// surplus are others that a controller of CSI-Addons has created.
	surplus []*v1alpha1.ReclaimSpaceCronJob
	// foreign says that a user maintains one for this claim.
	foreign bool
}

// cronJobs returns the ReclaimSpaceCronJobs that the claim owns, or that its annotation names. The
// controller maintains those that are managed, which includes those of the CSI-Addons for Ceph.
func (c *Claims) cronJobs(ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (schedules, error) {
	list, err := c.targeting(ctx, claim)
	if err != nil {
		return schedules{}, err
	}
	var found schedules
	for i := range list {
		one := &list[i]
		owned := metav1.IsControlledBy(one, claim)
		switch {
		case one.DeletionTimestamp != nil:
		case owned && cmp.Or(one.Annotations[v1alpha1.StateAnnotation], v1alpha1.ManagedState) ==
			v1alpha1.ManagedState: // the CSI-Addons for Ceph wrote no annotation before v0.11
			found.surplus = append(found.surplus, one)
		case owned || claim.Annotations[v1alpha1.ReclaimSpaceCronJobAnnotation] == one.Name:
			found.foreign = true
		}
	}
	if len(found.surplus) > 0 && !found.foreign {
		found.kept, found.surplus = found.surplus[0], found.surplus[1:]
	}
	return found, nil
}

// targeting returns all ReclaimSpaceCronJobs for a claim, the oldest first.
func (c *Claims) targeting(ctx context.Context, claim *corev1.PersistentVolumeClaim,
) ([]v1alpha1.ReclaimSpaceCronJob, error) {
	var list v1alpha1.ReclaimSpaceCronJobList
	err := c.Client.List(ctx, &list, client.InNamespace(claim.Namespace),
		client.MatchingFields{indexClaim: claim.Name})
	if err != nil {
		return nil, fmt.Errorf("listing ReclaimSpaceCronJobs: %w", err)
	}
	var usual v1alpha1.ReclaimSpaceCronJob
	name := types.NamespacedName{
		Namespace: claim.Namespace, Name: appended(claim.Name, cronJobSuffix),
	}
	err = c.Client.Get(ctx, name, &usual)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading ReclaimSpaceCronJob %s: %w", name, err)
	case err == nil && targetOf(&usual) == claim.Name:
		list.Items = append(list.Items, usual)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.ReclaimSpaceCronJob) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// create creates the ReclaimSpaceCronJob of a claim, if the driver of the volume can reclaim space.
// If that is not known, it returns when to try again.
func (c *Claims) create(ctx context.Context, claim *corev1.PersistentVolumeClaim, wanted wish,
) (time.Duration, error) {
	driver, known, err := c.driver(ctx, claim)
	if err != nil || !known {
		return unknownInterval, err
	}
	if len(c.Drivers[driver].Namespaces) == 0 {
		return 0, nil
	}
	offers, err := c.offers(ctx, driver)
	if err != nil || !offers {
		return unknownInterval, err
	}
	one := newCronJob(claim, wanted)
	err = c.Client.Create(ctx, one)
	switch {
	case apierrors.IsAlreadyExists(err):
		return 0, c.explain(ctx, claim, one)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return 0, nil
	}
	return 0, c.report(wanted, one, err)
}

// change writes a new schedule, unless somebody has changed the object since it was read. Other
// fields belong to users.
func (c *Claims) change(ctx context.Context, one *v1alpha1.ReclaimSpaceCronJob, wanted wish) error {
	if one.Spec.Schedule == wanted.schedule &&
		one.Labels[v1alpha1.ScheduleFromLabel] == wanted.from.kind {
		return nil
	}
	changed := one.DeepCopy()
	changed.Spec.Schedule = wanted.schedule
	metav1.SetMetaDataLabel(&changed.ObjectMeta, v1alpha1.ScheduleFromLabel, wanted.from.kind)
	patch := client.MergeFromWithOptions(one, client.MergeFromWithOptimisticLock{})
	return c.report(wanted, one, client.IgnoreNotFound(c.Client.Patch(ctx, changed, patch)))
}

// report records an event if a schedule is invalid. An API server that refuses the schedule does so
// again, so that is no error to retry.
func (c *Claims) report(wanted wish, one *v1alpha1.ReclaimSpaceCronJob, err error) error {
	_, invalid := parse(wanted.schedule)
	switch {
	case apierrors.IsInvalid(err):
		invalid = err
	case err != nil:
		return fmt.Errorf("writing ReclaimSpaceCronJob %s: %w", client.ObjectKeyFromObject(one), err)
	}
	if invalid != nil {
		c.Events.Eventf(wanted.from.object, nil, corev1.EventTypeWarning, ReasonInvalidSchedule,
			actionSchedule, "Annotation %s: %.900s", v1alpha1.ReclaimSpaceScheduleAnnotation,
			invalid.Error())
	}
	return nil
}

// explain records an event if another object has the name of the ReclaimSpaceCronJob of a claim. An
// object of an earlier claim with the same name will be deleted, and then this claim is reconciled.
func (c *Claims) explain(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	one *v1alpha1.ReclaimSpaceCronJob,
) error {
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(one), one); err != nil {
		return fmt.Errorf("reading ReclaimSpaceCronJob %s: %w", client.ObjectKeyFromObject(one), err)
	}
	owner := metav1.GetControllerOf(one)
	if owner == nil || owner.Kind != claimKind || owner.Name != claim.Name {
		c.Events.Eventf(claim, one, corev1.EventTypeWarning, ReasonNameTaken, actionSchedule,
			"No job reclaims space: ReclaimSpaceCronJob %s exists and does not belong to the claim",
			one.Name)
	}
	return nil
}

// remove deletes a ReclaimSpaceCronJob, unless somebody has changed it since it was read.
func (c *Claims) remove(ctx context.Context, one *v1alpha1.ReclaimSpaceCronJob) error {
	err := c.Client.Delete(ctx, one, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &one.UID, ResourceVersion: &one.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ReclaimSpaceCronJob %s: %w", client.ObjectKeyFromObject(one), err)
	}
	log.FromContext(ctx).Info("Deleted the ReclaimSpaceCronJob of a claim without a schedule",
		"cronJob", one.Name)
	return nil
}

// newCronJob returns the ReclaimSpaceCronJob of a claim. The reference to the claim does not block
// the deletion of the claim, because that would need a permission to write to claims.
func newCronJob(claim *corev1.PersistentVolumeClaim, wanted wish) *v1alpha1.ReclaimSpaceCronJob {
	const history = 1 // jobs to keep: there are many claims
	one := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: appended(claim.Name, cronJobSuffix),
			Labels:      map[string]string{v1alpha1.ScheduleFromLabel: wanted.from.kind},
			Annotations: map[string]string{v1alpha1.StateAnnotation: v1alpha1.ManagedState},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: claimKind, Name: claim.Name, UID: claim.UID,
				Controller: ptr.To(true),
			}},
		},
		Spec: v1alpha1.ReclaimSpaceCronJobSpec{
			Schedule:                   wanted.schedule,
			SuccessfulJobsHistoryLimit: ptr.To[int32](history),
			FailedJobsHistoryLimit:     ptr.To[int32](history),
		},
	}
	one.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = claim.Name
	return one
}

// driver returns the CSI driver of the volume of a claim, or "". It is not known if the volume has
// just been deleted. The driver is read from the API server, because few claims need it.
func (c *Claims) driver(ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (name string, known bool, err error) {
	volume := &corev1.PersistentVolume{}
	err = c.Live.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, volume)
	switch ref := volume.Spec.ClaimRef; {
	case apierrors.IsNotFound(err):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("reading PersistentVolume %s: %w", claim.Spec.VolumeName, err)
	case ref == nil || ref.UID != claim.UID || volume.Spec.CSI == nil:
		return "", true, nil
	}
	return volume.Spec.CSI.Driver, true, nil
}

// offers returns whether a driver can reclaim space: one of its sidecars has said so.
func (c *Claims) offers(ctx context.Context, driver string) (bool, error) {
	var nodes v1alpha1.CSIAddonsNodeList
	err := c.Client.List(ctx, &nodes, client.MatchingFields{connection.IndexDriver: driver},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing CSIAddonsNodes: %w", err)
	}
	return slices.ContainsFunc(nodes.Items, func(node v1alpha1.CSIAddonsNode) bool {
		return c.Drivers.Allows(driver, node.Namespace) && reclaims(&node)
	}), nil
}
