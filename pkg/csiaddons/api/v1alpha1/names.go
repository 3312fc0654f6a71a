package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
)

// Finalizers of the controller of the CSI-Addons for Ceph. Ours only removes them.
const (
	CSIAddonsNodeFinalizer = Group + "/csiaddonsnode"
	NetworkFenceFinalizer  = Group + "/network-fence"
)

// Annotations of CSIAddonsNodes.
const (
	// CreatedByPodUIDAnnotation contains the UID of the pod whose sidecar wrote the object last.
	CreatedByPodUIDAnnotation = "sidecar." + Group + "/createdByPodUID"
	// LastUpdatedAtAnnotation contains the time, in the format of RFC 3339, at which the sidecar has
	// started that wrote the object last. Sidecars of the CSI-Addons for Ceph write it with each
	// change.
	LastUpdatedAtAnnotation = "sidecar." + Group + "/lastUpdatedAt"
	// CertificatePinAnnotation contains the pin of the sidecar's certificate; see package wire.
	CertificatePinAnnotation = "sidecar." + Group + "/certificatePin"
	// NetworkFenceClassNamesAnnotation contains the names of the NetworkFenceClasses of the driver as
	// a JSON array. The controller of the CSI-Addons for Ceph writes it.
	NetworkFenceClassNamesAnnotation = Group + "/networkfenceclass-names"
)

// Annotations of PersistentVolumeClaims, Namespaces and StorageClasses that schedule the
// reclaiming of space.
const (
	// ReclaimSpaceScheduleAnnotation contains a schedule in the format of cron.
	ReclaimSpaceScheduleAnnotation = "reclaimspace." + Group + "/schedule"
	// ReclaimSpaceEnableAnnotation prevents a schedule if its value is "false".
	ReclaimSpaceEnableAnnotation = "reclaimspace." + Group + "/enable"
	// ReclaimSpaceCronJobAnnotation contains, on a PersistentVolumeClaim, the name of its
	// ReclaimSpaceCronJob.
	ReclaimSpaceCronJobAnnotation = "reclaimspace." + Group + "/cronjob"
	// ReclaimSpaceDriversAnnotation contains, on a Namespace, the drivers whose volumes are scheduled,
	// separated by commas.
	ReclaimSpaceDriversAnnotation = "reclaimspace." + Group + "/drivers"
)

// Annotations of ReclaimSpaceCronJobs and ReclaimSpaceJobs.
const (
	// StateAnnotation contains, on a ReclaimSpaceCronJob, ManagedState or UnmanagedState.
	StateAnnotation = Group + "/state"
	// ManagedState says that the controller may change or delete the object.
	ManagedState = "managed"
	// UnmanagedState says that the object belongs to a user.
	UnmanagedState = "unmanaged"
	// ScheduledAtAnnotation contains, on a ReclaimSpaceJob of a ReclaimSpaceCronJob, the time of the
	// schedule in the format of RFC 3339.
	ScheduledAtAnnotation = Group + "/scheduled-at"
)

// ScheduleFromLabel contains, on a ReclaimSpaceCronJob whose schedule comes from an annotation, the
// kind of the object with the annotation: PersistentVolumeClaim, Namespace or StorageClass.
const ScheduleFromLabel = "csi-addons.openstack.org/schedule-from"

// Keys of the parameters of a NetworkFenceClass that name the Secret of its driver. The driver gets
// all other parameters. A key with ReservedParameterPrefix that is not one of these is an error.
const (
	ReservedParameterPrefix              = Group + "/"
	NetworkFenceSecretNameParameter      = ReservedParameterPrefix + "networkfence-secret-name"
	NetworkFenceSecretNamespaceParameter = ReservedParameterPrefix + "networkfence-secret-namespace"
)

// StorageNetworksParameter is the key of the parameters of a NetworkFenceClass that contains the
// networks from which nodes use the storage, separated by commas. The adapter of Manila reads it,
// and the controller accepts addresses in these networks as clients of any node.
const StorageNetworksParameter = "storageNetworks"

// CheckManilaParameters refuses parameters that have no meaning for Manila. Some drivers read the
// ID of a storage cluster, and the controller treats NetworkFences with different IDs as
// independent. But all NetworkFences of Manila change the same shares, so the end of one would end
// the other.
func CheckManilaParameters(given map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if key != StorageNetworksParameter {
			return fmt.Errorf("the driver has no parameter %.63q, only %s. Delete the NetworkFenceClass, "+
				"and create it with the same name and without this parameter. If the NetworkFence itself "+
				"contains the parameter, replace it by one with a NetworkFenceClass", key,
				StorageNetworksParameter)
		}
	}
	return nil
}

// RevisionAnnotation contains, on a CustomResourceDefinition of this project, a number that
// increases with each change of its schema. hack/install-crds.sh reads it.
const RevisionAnnotation = "csi-addons.openstack.org/revision"
