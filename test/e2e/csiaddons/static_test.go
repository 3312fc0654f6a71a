//go:build e2e

package csiaddons

import (
	"context"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
)

// The PersistentVolume contains the ID of the access rule that the fence replaces, and nothing in
// the cloud says that its share belongs to the cluster.
func TestShareOfAStaticPersistentVolumeIsFencedAndMountedAgain(t *testing.T) {
	const lost, other, name = "devcluster-node-1", "devcluster-node-2", "static"
	x := use(t)
	s := fencing{x: x, class: name}
	s.volume = x.mount(name, x.staticClaim(name), onNode(lost, pods.Spec(sleep, name)))
	x.start(&v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NetworkFenceClassSpec{Provisioner: manilaDriver},
	})
	clients := x.clients(name, lost, other)
	s.client = clients[lost]
	before := x.rules(s.volume)

	fence := s.fence(name, s.class, v1alpha1.Fenced)
	s.awaitSuccess(fence)
	x.mustHaveAccess(s.volume, clients[other], "rw")
	x.Create("static-late", onNode(lost, pods.Spec(sleep, name)))
	x.awaitRefusedMount("static-late")
	x.Create("static-other", onNode(other, pods.Spec(sleep, name)))
	x.running("static-other")

	x.setState(fence, v1alpha1.Unfenced)
	s.awaitSuccess(fence)
	x.mustHaveRules(s.volume, before)
	share, err := shares.Get(t.Context(), x.manila(), s.volume.id).Extract()
	x.Must(err)
	if len(share.Metadata) > 0 {
		t.Errorf("the share has the metadata %v", share.Metadata)
	}
	x.running("static-late")
	x.Create("static-again", onNode(lost, pods.Spec(sleep, name)))
	x.running("static-again")
}

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
	x.staticVolume(name, claim, map[string]string{
		"shareID": share, "shareAccessID": rule,
	})
	return claim
}

// staticVolume creates a PersistentVolume of the driver, and deletes it after the test: while it
// exists without its share, the driver refuses fences.
func (x *test) staticVolume(name string, claim corev1.PersistentVolumeClaimSpec,
	attributes map[string]string,
) {
	x.T.Helper()
	secret := &corev1.SecretReference{Namespace: manilaNamespace, Name: "csi-manila-secrets"}
	volumes := x.Cluster.Client.CoreV1().PersistentVolumes()
	_, err := volumes.Create(x.T.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.AccessModes, Capacity: claim.Resources.Requests,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: manilaDriver, VolumeHandle: attributes["shareID"], VolumeAttributes: attributes,
				NodeStageSecretRef: secret, NodePublishSecretRef: secret,
			}},
		},
	}, metav1.CreateOptions{})
	x.Must(err)
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
}
