// Command devcluster runs the operators on a real Kubernetes control plane on this machine. See
// `devcluster help`.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/devcluster/command"
)

func main() {
	os.Exit(command.Main(os.Args[1:], os.Stdout, os.Stderr))
}
