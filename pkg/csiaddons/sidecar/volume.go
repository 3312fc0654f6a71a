package sidecar

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
)

// reader reads the objects that a call names. Its errors are gRPC statuses.
type reader struct {
	kube   kubernetes.Interface
	driver string
}

// volume returns a PersistentVolume of the driver, and the content of the Secret with which kubelet
// stages it, if it has one.
func (r reader) volume(ctx context.Context, name string,
) (*corev1.PersistentVolume, map[string]string, error) {
	volume, err := r.ownVolume(ctx, name)
	if err != nil || volume.Spec.CSI.NodeStageSecretRef == nil {
		return volume, nil, err
	}
	reference := volume.Spec.CSI.NodeStageSecretRef
	secrets, err := r.secrets(ctx, reference.Namespace, reference.Name)
	return volume, secrets, err
}

// ownVolume reads a PersistentVolume, which must belong to the driver.
func (r reader) ownVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, status.Error(codes.InvalidArgument,
			"the request does not contain the name of a PersistentVolume")
	}
	volume, err := r.kube.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, status.Errorf(codeOf(err), "reading PersistentVolume %s: %v", name, err)
	case volume.Spec.CSI == nil:
		return nil, status.Errorf(codes.InvalidArgument,
			"PersistentVolume %s belongs to no CSI driver", name)
	case volume.Spec.CSI.Driver != r.driver:
		return nil, status.Errorf(codes.InvalidArgument,
			"PersistentVolume %s belongs to the driver %s: the sidecar serves the driver %s", name,
			volume.Spec.CSI.Driver, r.driver)
	}
	return volume, nil
}

// secrets returns the content of a Secret, or nothing if neither name nor namespace is given.
func (r reader) secrets(ctx context.Context, namespace, name string) (map[string]string, error) {
	if namespace == "" && name == "" {
		return nil, nil
	}
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, status.Error(codes.InvalidArgument,
			"a Secret needs a valid name and a valid namespace, or neither of them")
	}
	secret, err := r.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, status.Errorf(codeOf(err), "reading Secret %s/%s: %v", namespace, name, err)
	}
	content := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		content[key] = string(value)
	}
	return content, nil
}

// codeOf returns the code for an error of the API server.
func codeOf(err error) codes.Code {
	switch {
	case apierrors.IsNotFound(err):
		return codes.NotFound
	case apierrors.IsForbidden(err):
		return codes.FailedPrecondition // the RBAC of the sidecar is incomplete
	default:
		return codes.Unavailable
	}
}

// stagingPath returns where kubelet stages a volume.
func stagingPath(root string, volume *corev1.PersistentVolume) string {
	if isBlock(volume) {
		return filepath.Join(root, "volumeDevices", "staging", volume.Name)
	}
	handle := sha256.Sum256([]byte(volume.Spec.CSI.VolumeHandle))
	return filepath.Join(root, volume.Spec.CSI.Driver, hex.EncodeToString(handle[:]), "globalmount")
}

func isBlock(volume *corev1.PersistentVolume) bool {
	mode := volume.Spec.VolumeMode
	return mode != nil && *mode == corev1.PersistentVolumeBlock
}

// capability describes to the driver how pods use the volume.
func capability(volume *corev1.PersistentVolume) *csi.VolumeCapability {
	described := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: accessMode(volume.Spec.AccessModes)},
	}
	if isBlock(volume) {
		described.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return described
	}
	described.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
		FsType: volume.Spec.CSI.FSType, MountFlags: volume.Spec.MountOptions,
	}}
	return described
}

// accessMode returns the widest of the access modes.
func accessMode(modes []corev1.PersistentVolumeAccessMode) csi.VolumeCapability_AccessMode_Mode {
	has := map[corev1.PersistentVolumeAccessMode]bool{}
	for _, mode := range modes {
		has[mode] = true
	}
	writesOnce := has[corev1.ReadWriteOnce] || has[corev1.ReadWriteOncePod]
	switch {
	case has[corev1.ReadWriteMany], has[corev1.ReadOnlyMany] && writesOnce:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case has[corev1.ReadOnlyMany]:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case writesOnce:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	default:
		return csi.VolumeCapability_AccessMode_UNKNOWN
	}
}
