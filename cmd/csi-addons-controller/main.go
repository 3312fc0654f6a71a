// Command csi-addons-controller runs the operations of CSI-Addons.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
)

func main() {
	os.Exit(cli.Run(controller.NewCommand(context.Background())))
}
