// Command devnode runs one real node in namespaces of its own; see package supervisor. Package node
// starts it.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/node/supervisor"
)

func main() { os.Exit(supervisor.Main(os.Args[1:], os.Stdin, os.Stderr)) }
