// Package source tells which CSI driver serves a PersistentVolume. Its callers are the programs of
// CSI-Addons and pkg/kubectl.
package source

import corev1 "k8s.io/api/core/v1"

// cinder is the driver that serves the volumes of Kubernetes' former driver for Cinder.
const cinder = "cinder.csi.openstack.org"

// Of returns the CSI driver of a PersistentVolume and what it knows of the volume, or nil if no
// CSI driver serves the volume. Kubernetes gives volumes of its former driver for Cinder to the CSI
// driver, and stages them as those: https://kubernetes.io/docs/concepts/storage/volumes/#cinder.
func Of(volume *corev1.PersistentVolume) *corev1.CSIPersistentVolumeSource {
	if inTree := volume.Spec.Cinder; inTree != nil {
		return &corev1.CSIPersistentVolumeSource{
			Driver: cinder, VolumeHandle: inTree.VolumeID, FSType: inTree.FSType,
			ReadOnly: inTree.ReadOnly,
		}
	}
	return volume.Spec.CSI
}
