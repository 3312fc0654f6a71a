//go:build e2e

package csiaddons

import (
	"github.com/gophercloud/gophercloud/v2"

	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// simulator returns the cloud.
func (x *test) simulator() *simulator.Simulator {
	x.T.Helper()
	cloud, ok := x.Cluster.Cloud().(*simulator.Simulator)
	if !ok {
		x.T.Fatalf("the cloud of a cluster with real nodes is %T", x.Cluster.Cloud())
	}
	return cloud
}

// manila returns a client of Manila with the credentials of the drivers.
func (x *test) manila() *gophercloud.ServiceClient {
	x.T.Helper()
	client, err := administrator.Shares(x.T.Context(),
		x.simulator().CloudsYAML(simulator.Clouds{}))
	x.Must(err)
	return client
}
