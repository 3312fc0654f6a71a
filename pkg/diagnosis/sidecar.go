package diagnosis

import "strings"

// Sidecar is a container of the controller that works only while it holds its Lease.
type Sidecar string

// The sidecars.
const (
	Provisioner Sidecar = "provisioner"
	Attacher    Sidecar = "attacher"
	Resizer     Sidecar = "resizer"
	Snapshotter Sidecar = "snapshotter"
)

// Lease returns the name of the Lease of the sidecar of a driver.
func (s Sidecar) Lease(driver string) string {
	prefixes := map[Sidecar]string{
		Attacher: "external-attacher-leader-", Resizer: "external-resizer-",
		Snapshotter: "external-snapshotter-leader-",
	}
	return prefixes[s] + strings.ReplaceAll(driver, ".", "-")
}
