// Command manila-operator installs and maintains the Manila CSI driver and its companion, the NFS
// driver.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"

	"github.com/openstack-csi/csi-operator/pkg/drivers/manila"
	"github.com/openstack-csi/csi-operator/pkg/drivers/nfs"
	"github.com/openstack-csi/csi-operator/pkg/operator"
)

func main() {
	os.Exit(cli.Run(operator.NewCommand(context.Background(),
		"manila-csi-driver-operator", manila.Driver(), nfs.Companion(manila.Namespace))))
}
