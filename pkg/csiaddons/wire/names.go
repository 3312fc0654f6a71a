package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// LeaseName returns the name of the Lease whose holder serves the controller operations of a
// driver. The Lease is in the namespace of the sidecars. Its holder is the LeaseHolder of a pod.
//
// The CSI-Addons for Ceph derives the same name. Kubernetes accepts no capital letters in names of
// Leases, so this function replaces them by small ones.
func LeaseName(driver string) string {
	return strings.ToLower(replaced(driver)) + "-csi-addons"
}

// LeaseHolder returns the name under which a pod holds Leases. The CSI-Addons for Ceph writes and
// expects the same name. So two pods of a driver must not differ only by dots and hyphens.
func LeaseHolder(pod string) string { return replaced(pod) }

// replaced replaces all characters except letters, digits and hyphens by hyphens, and appends an X
// to a name that would end in a hyphen.
func replaced(name string) string {
	name = regexp.MustCompile(`[^a-zA-Z0-9-]`).ReplaceAllString(name, "-")
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	return name
}

// ObjectName returns the name of the CSIAddonsNode of a driver in a pod: the name of the pod and a
// hash of both names. So two drivers in one pod have two objects, and so have two pods on one node.
// The controller accepts no other name, so a pod and a driver have one object.
func ObjectName(pod, driver string) string {
	const digits = 10
	sum := sha256.Sum256([]byte(pod + "/" + driver))
	suffix := "-" + hex.EncodeToString(sum[:])[:digits]
	return pod[:min(len(pod), validation.DNS1123SubdomainMaxLength-len(suffix))] + suffix
}

// ChangedSharesTrailer is the key of the gRPC trailer of FenceClusterNetwork that contains the
// number of shares to which access was revoked, as decimal digits. The adapter for Manila sets it,
// and the sidecar passes it on. The specification has no field for it.
const ChangedSharesTrailer = "openstack-changed-shares"
