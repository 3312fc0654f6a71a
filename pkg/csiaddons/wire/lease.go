package wire

import (
	"regexp"
	"strings"
)

// LeaseName returns the name of the Lease whose holder serves the controller operations of a
// driver. The Lease is in the namespace of the sidecars, and its holder is the name of a pod.
//
// The CSI-Addons for Ceph derives the same name: it replaces all characters except letters, digits
// and hyphens by hyphens, and appends an X to a name that would end in a hyphen. Kubernetes accepts
// no capital letters in names of Leases, so this function replaces them by small ones.
func LeaseName(driver string) string {
	name := regexp.MustCompile(`[^a-zA-Z0-9-]`).ReplaceAllString(driver, "-")
	if name != "" && name[len(name)-1] == '-' {
		name += "X"
	}
	return strings.ToLower(name) + "-csi-addons"
}
