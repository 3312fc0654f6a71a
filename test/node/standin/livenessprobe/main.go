// Command livenessprobe stands in for the liveness probe of CSI drivers: /healthz returns 200 if
// the driver answers the CSI call Probe that it is ready, and 500 otherwise.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/node/standin"
)

func main() {
	os.Exit(standin.Main("livenessprobe", &livenessProbe{}))
}
