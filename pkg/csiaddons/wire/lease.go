package wire

import (
	"regexp"
	"strings"
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
