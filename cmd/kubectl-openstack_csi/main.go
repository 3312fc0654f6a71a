// Command kubectl-openstack_csi is the plugin `kubectl openstack-csi`.
package main

import (
	"context"
	"os"

	"github.com/openstack-csi/csi-operator/pkg/kubectl"
)

func main() {
	os.Exit(kubectl.Main(context.Background(), os.Args[1:], kubectl.Standard(os.LookupEnv)))
}
