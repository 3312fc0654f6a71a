package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Volume is a PersistentVolume of a CSI driver.
type Volume struct {
	// Secrets is the content of the Secret with which kubelet stages the volume; nil without one.
	Secrets map[string]string

	object *corev1.PersistentVolume
	source *corev1.CSIPersistentVolumeSource
}

// ID returns the ID that the driver gave to the volume.
func (v *Volume) ID() string { return v.source.VolumeHandle }

// Attributes returns what the driver stored in the volume when it created it.
func (v *Volume) Attributes() map[string]string { return v.source.VolumeAttributes }

// StagingPath returns where kubelet stages the volume, below the root of all staging paths.
func (v *Volume) StagingPath(root string) string {
	if v.isBlock() {
		return filepath.Join(root, "volumeDevices", "staging", v.object.Name)
	}
	id := sha256.Sum256([]byte(v.ID()))
	return filepath.Join(root, v.source.Driver, hex.EncodeToString(id[:]), "globalmount")
}

func (v *Volume) isBlock() bool {
	return ptr.Deref(v.object.Spec.VolumeMode, "") == corev1.PersistentVolumeBlock
}

// Capability describes to the driver how pods use the volume.
func (v *Volume) Capability() *csi.VolumeCapability {
	described := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: accessMode(v.object.Spec.AccessModes)},
	}
	if v.isBlock() {
		described.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return described
	}
	described.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
		FsType: v.source.FSType, MountFlags: v.object.Spec.MountOptions,
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
