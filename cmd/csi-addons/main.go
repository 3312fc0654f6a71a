// Command csi-addons calls the CSI-Addons services of a driver on its socket.
package main

import (
	"context"
	"os"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
