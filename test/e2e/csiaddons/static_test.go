//go:build e2e

package csiaddons

import (
	"context"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
)

// staticClaim creates a share without the driver, and a PersistentVolume as the driver created them
// before v1.35. It returns a claim for the PersistentVolume.
func (x *test) staticClaim(name string) corev1.PersistentVolumeClaimSpec {
	x.T.Helper()
	ctx, manila := x.T.Context(), x.manila()
	share, err := administrator.CreateShare(ctx, manila,
		shares.CreateOpts{ShareProto: "NFS", Size: 1, Name: name})
	x.Must(err)
	x.CleanUp(func(ctx context.Context) error {
		return shares.Delete(ctx, manila, share).ExtractErr()
	})
	rule, err := administrator.Allow(ctx, manila, share, "ip", "rw 0.0.0.0/0")
	x.Must(err)
	claim := pods.ClaimSpec(pods.Class{Mode: corev1.ReadWriteMany})
	claim.VolumeName = name
	secret := &corev1.SecretReference{Namespace: manilaNamespace, Name: "csi-manila-secrets"}
	volumes := x.Cluster.Client.CoreV1().PersistentVolumes()
	_, err = volumes.Create(x.T.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.AccessModes, Capacity: claim.Resources.Requests,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: manilaDriver, VolumeHandle: share,
				VolumeAttributes:   map[string]string{"shareID": share, "shareAccessID": rule},
				NodeStageSecretRef: secret, NodePublishSecretRef: secret,
			}},
		},
	}, metav1.CreateOptions{})
	x.Must(err)
	// While it exists without its share, the driver refuses fences.
	x.CleanUp(func(ctx context.Context) error {
		if err := volumes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true,
			func(ctx context.Context) (bool, error) {
				_, err := volumes.Get(ctx, name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), nil
			})
	})
	return claim
}
