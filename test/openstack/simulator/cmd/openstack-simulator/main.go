// Command openstack-simulator runs a simulated OpenStack cloud on this machine, and drives a running one by hand.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator/command"
)

func main() {
	os.Exit(command.Main(os.Args[1:], os.Stdout, os.Stderr))
}
