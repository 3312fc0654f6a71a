// Command csi-addons-sidecar serves the CSI-Addons operations of a driver to the controller.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/sidecar"
)

func main() {
	os.Exit(cli.Run(sidecar.NewCommand(context.Background())))
}
