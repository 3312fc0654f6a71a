// Command openstack-csi-addons serves CSI-Addons for the CSI driver of Cinder or Manila.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/adapter"
)

func main() {
	os.Exit(cli.Run(adapter.NewCommand(context.Background())))
}
