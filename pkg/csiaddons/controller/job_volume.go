package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
)

// indexVolume indexes VolumeAttachments by the name of the PersistentVolume.
const indexVolume = "volume"

// volume returns the volume of a job. It reads the claim from the cache, so that jobs without a
// bound claim send no requests. The cache may be outdated, so the PersistentVolume, read from the
// API server, must be bound to the same claim.
func (r *Jobs) volume(ctx context.Context, job *v1alpha1.ReclaimSpaceJob,
) (*corev1.PersistentVolume, error) {
	name := types.NamespacedName{
		Namespace: job.Namespace, Name: job.Spec.Target.PersistentVolumeClaim,
	}
	if wrong := validation.IsDNS1123Subdomain(name.Name); len(wrong) > 0 {
		return nil, final(ReasonNoTarget, "spec.target.persistentVolumeClaim is not the name of a "+
			"claim: %s", strings.Join(wrong, "; "))
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := r.Client.Get(ctx, name, claim)
	switch {
	case apierrors.IsNotFound(err):
		return nil, waiting(ReasonClaimNotFound, "PersistentVolumeClaim %s does not exist", name.Name)
	case err != nil:
		return nil, fmt.Errorf("reading PersistentVolumeClaim %s: %w", name, err)
	case claim.Status.Phase != corev1.ClaimBound:
		return nil, waiting(ReasonClaimNotBound, "PersistentVolumeClaim %s is not bound", name.Name)
	}
	volume, err := volumeOf(ctx, r.Live, claim)
	if err != nil {
		return nil, err
	}
	if volume == nil {
		return nil, waiting(ReasonClaimNotBound, "PersistentVolume %s is not bound to the claim %s",
			claim.Spec.VolumeName, name.Name)
	}
	switch served := source.Of(volume); {
	case served == nil:
		return nil, final(ReasonNoDriver, "PersistentVolume %s belongs to no CSI driver", volume.Name)
	case len(r.Drivers[served.Driver].Namespaces) == 0:
		return nil, final(ReasonNoDriver, "The controller does not serve the driver %s: an "+
			"administrator can allow it with the flag --driver-namespaces", served.Driver)
	}
	return volume, nil
}

// volumeOf returns the PersistentVolume that is bound to a claim, or nil if there is none.
func volumeOf(ctx context.Context, live client.Reader, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolume, error) {
	volume := &corev1.PersistentVolume{}
	err := live.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, volume)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading PersistentVolume %s: %w", claim.Spec.VolumeName, err)
	}
	ref := volume.Spec.ClaimRef
	if ref == nil || ref.UID != claim.UID || volume.Status.Phase != corev1.VolumeBound {
		return nil, nil
	}
	return volume, nil
}

// nodes returns the names of the Nodes to which a volume is attached, sorted.
func (r *Jobs) nodes(ctx context.Context, v *corev1.PersistentVolume) ([]string, error) {
	var attachments storagev1.VolumeAttachmentList
	err := r.Client.List(ctx, &attachments, client.MatchingFields{indexVolume: v.Name})
	if err != nil {
		return nil, fmt.Errorf("listing VolumeAttachments: %w", err)
	}
	var nodes []string
	for i := range attachments.Items {
		one := &attachments.Items[i]
		if one.Status.Attached && one.DeletionTimestamp == nil {
			nodes = append(nodes, one.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

func byVolume(o client.Object) []string {
	return []string{ptr.Deref(o.(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName, "")}
}
