// Command new-driver creates the folders of a new driver that works: assets, plugin, command, image
// and its part of the devcluster. `make new-driver NAME=demo` calls it and then generates the
// assets; docs/adding-a-driver.md describes the next steps.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/hack/new-driver/scaffold"
)

func main() {
	os.Exit(scaffold.Main(os.Args[1:], os.Stdout, os.Stderr))
}
