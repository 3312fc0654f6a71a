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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// indexVolume indexes VolumeAttachments by the name of the PersistentVolume.
const indexVolume = "volume"

// podsPerPage limits the pods in one response of the API server.
const podsPerPage = 500

// volume is the volume of a job.
type volume struct {
	name, driver string
	claim        types.NamespacedName
}

// volume returns the volume of a job, or why there is none. It reads the claim from the cache, so
// that jobs without a bound claim send no requests. The cache may be outdated, so the
// PersistentVolume, read from the API server, must be bound to the same claim.
func (r *Jobs) volume(ctx context.Context, job *v1alpha1.ReclaimSpaceJob,
) (volume, *obstacle, error) {
	found := volume{claim: types.NamespacedName{
		Namespace: job.Namespace, Name: job.Spec.Target.PersistentVolumeClaim,
	}}
	if found.claim.Name == "" {
		return found, final(ReasonNoTarget, "The job names no PersistentVolumeClaim"), nil
	}
	if wrong := validation.IsDNS1123Subdomain(found.claim.Name); len(wrong) > 0 {
		return found, final(ReasonNoTarget, "spec.target.persistentVolumeClaim is not the name of a "+
			"claim: %s", strings.Join(wrong, "; ")), nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := r.Client.Get(ctx, found.claim, claim)
	switch {
	case apierrors.IsNotFound(err):
		return found, waiting(ReasonClaimNotFound, "PersistentVolumeClaim %s does not exist",
			found.claim.Name), nil
	case err != nil:
		return found, nil, fmt.Errorf("reading PersistentVolumeClaim %s: %w", found.claim, err)
	case !bound(claim):
		return found, waiting(ReasonClaimNotBound, "PersistentVolumeClaim %s is not bound",
			found.claim.Name), nil
	}
	found.name = claim.Spec.VolumeName
	persistent := &corev1.PersistentVolume{}
	err = r.Live.Get(ctx, types.NamespacedName{Name: found.name}, persistent)
	switch ref := persistent.Spec.ClaimRef; {
	case apierrors.IsNotFound(err):
		return found, waiting(ReasonClaimNotBound, "PersistentVolume %s does not exist", found.name), nil
	case err != nil:
		return found, nil, fmt.Errorf("reading PersistentVolume %s: %w", found.name, err)
	case ref == nil || ref.UID != claim.UID || persistent.Status.Phase != corev1.VolumeBound:
		return found, waiting(ReasonClaimNotBound, "PersistentVolume %s is not bound to the claim %s",
			found.name, found.claim.Name), nil
	case persistent.Spec.CSI == nil:
		return found, final(ReasonNoDriver, "PersistentVolume %s belongs to no CSI driver",
			found.name), nil
	}
	found.driver = persistent.Spec.CSI.Driver
	if len(r.Drivers[found.driver].Namespaces) == 0 {
		return found, final(ReasonNoDriver, "The controller does not serve the driver %s: an "+
			"administrator can allow it with the flag --driver-namespaces", found.driver), nil
	}
	return found, nil, nil
}

// bound returns whether a claim has a volume.
func bound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName != ""
}

// nodes returns the names of the Nodes that use a volume, sorted. A driver that does not attach
// volumes has no VolumeAttachments, so pods say which Nodes use its volumes.
func (r *Jobs) nodes(ctx context.Context, v volume) ([]string, error) {
	driver := &storagev1.CSIDriver{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: v.driver}, driver)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading CSIDriver %s: %w", v.driver, err)
	}
	var found []string
	if required := driver.Spec.AttachRequired; required != nil && !*required {
		found, err = r.nodesOfPods(ctx, v.claim)
	} else {
		found, err = r.attached(ctx, v.name)
	}
	slices.Sort(found)
	return slices.Compact(found), err
}

func (r *Jobs) attached(ctx context.Context, volume string) ([]string, error) {
	var attachments storagev1.VolumeAttachmentList
	err := r.Client.List(ctx, &attachments, client.MatchingFields{indexVolume: volume})
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
	return nodes, nil
}

func (r *Jobs) nodesOfPods(ctx context.Context, claim types.NamespacedName,
) ([]string, error) {
	var nodes []string
	page := &client.ListOptions{Namespace: claim.Namespace, Limit: podsPerPage}
	for {
		var pods corev1.PodList
		if err := r.Live.List(ctx, &pods, page); err != nil {
			return nil, fmt.Errorf("listing the pods of namespace %s: %w", claim.Namespace, err)
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Status.Phase == corev1.PodRunning && mounts(pod, claim.Name) {
				nodes = append(nodes, pod.Spec.NodeName)
			}
		}
		if pods.Continue == "" {
			return nodes, nil
		}
		page.Continue = pods.Continue
	}
}

// mounts returns whether a pod uses a claim.
func mounts(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		switch {
		case v.PersistentVolumeClaim != nil:
			return v.PersistentVolumeClaim.ClaimName == claim
		case v.Ephemeral != nil:
			return pod.Name+"-"+v.Name == claim
		default:
			return false
		}
	})
}

// volumeOf returns the PersistentVolume of a VolumeAttachment.
func volumeOf(o client.Object) []string {
	name := o.(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName
	if name == nil {
		return nil
	}
	return []string{*name}
}
