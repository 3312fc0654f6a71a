// Command asset-generator writes the bundles in assets/drivers/*/generated from their layers.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/pkg/generator"
)

func main() {
	os.Exit(generator.Main(os.Args[1:], os.Stderr))
}
