// Command cinder-operator installs and maintains the Cinder CSI driver.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"

	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/operator"
)

func main() {
	os.Exit(cli.Run(operator.NewCommand(context.Background(),
		"openstack-cinder-csi-driver-operator", cinder.Driver())))
}
