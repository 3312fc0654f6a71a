// Command openstack-services runs another command while the real services of OpenStack run on this
// machine: `openstack-services make test-integration`.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/openstack/services"
)

func main() {
	os.Exit(services.Main(os.Args[1:], os.Stdout, os.Stderr))
}
