package wire

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ObjectName returns the name of the CSIAddonsNode of a driver in a pod: the name of the pod and a
// hash of both names. So two drivers in one pod have two objects, and so have two pods on one node.
// The controller accepts no other name, so a pod and a driver have one object.
func ObjectName(pod, driver string) string {
	const digits = 10
	sum := sha256.Sum256([]byte(pod + "/" + driver))
	suffix := "-" + hex.EncodeToString(sum[:])[:digits]
	return pod[:min(len(pod), validation.DNS1123SubdomainMaxLength-len(suffix))] + suffix
}
