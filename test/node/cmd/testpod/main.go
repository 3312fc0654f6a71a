// Command testpod is the program of pods in tests; see package testpod.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/node/testpod"
)

func main() { os.Exit(testpod.Main(os.Args[1:], os.Stderr)) }
