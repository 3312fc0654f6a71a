// Command registrar stands in for the node-driver-registrar: it registers the node plugin of a CSI
// driver with kubelet, through a socket in kubelet's folder of plugin registrations.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/node/standin"
)

func main() {
	os.Exit(standin.Main("csi-node-driver-registrar", &registrar{}))
}
