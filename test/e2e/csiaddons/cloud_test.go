//go:build e2e

package csiaddons

import (
	"bytes"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// ruleVersion is the microversion of Manila that lists access rules with their metadata.
const ruleVersion = "2.45"

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
	file := x.simulator().CloudsYAML(simulator.Clouds{})
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName("openstack"),
		clouds.WithCloudsYAML(bytes.NewReader(file)))
	x.Must(err)
	provider, err := config.NewProviderClient(x.T.Context(), auth, config.WithTLSConfig(tls))
	x.Must(err)
	client, err := openstack.NewSharedFileSystemV2(provider, endpoint)
	x.Must(err)
	client.Microversion = ruleVersion
	return client
}
