package diagnosis

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SnapshotGrace is how long a snapshot controller may take until it processes a VolumeSnapshot.
const SnapshotGrace = 5 * time.Minute

// IsIgnored reports whether no snapshot controller has processed a VolumeSnapshot. In its first
// pass a controller adds its finalizers. If the VolumeSnapshot is invalid, or its class does not
// exist, the controller writes an error into the status instead.
func IsIgnored(snapshot metav1.Object, now time.Time) bool {
	return now.Sub(snapshot.GetCreationTimestamp().Time) > SnapshotGrace &&
		!slices.ContainsFunc(snapshot.GetFinalizers(), func(finalizer string) bool {
			return strings.HasPrefix(finalizer, "snapshot.storage.kubernetes.io/")
		}) &&
		!slices.ContainsFunc(snapshot.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Subresource == "status"
		})
}
