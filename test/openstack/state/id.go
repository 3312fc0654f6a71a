//go:build linux

package state

import (
	"crypto/sha256"
	"fmt"
)

// NamedID returns a UUID that depends on the kind and the name only, so that a resource has the
// same ID in each run.
func NamedID(kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "\n" + name))
	sum[6] = sum[6]&0x0f | 0x50 // version 5: made of a name
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
