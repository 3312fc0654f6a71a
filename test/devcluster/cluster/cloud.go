package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

// Cloud returns OpenStack, or nil without a cloud.
func (c *Cluster) Cloud() testcloud.Cloud { return c.cloud }

func (c *Cluster) startCloud(ctx context.Context) error {
	if c.opts.NoCloud {
		return nil
	}
	cloud := c.opts.Cloud
	if cloud == nil {
		var err error
		if cloud, err = c.newCloud(); err != nil {
			return err
		}
		if err := cloud.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	c.cloud, c.openstack = cloud, describe(cloud)
	return nil
}

// newCloud returns OpenStack. With real nodes it is the simulator, which attaches volumes to them.
func (c *Cluster) newCloud() (testcloud.Cloud, error) {
	config := simulator.Config{
		TLS: c.opts.TLS, ShareTypes: []simulator.ShareType{{Name: "default"}, {Name: "fast"}},
		Host: c.address(), Report: func(err error) { c.say("OpenStack: %v", err) },
	}
	if c.opts.Nodes.Count == 0 {
		return testcloud.New(config)
	}
	config.State, config.Settle = c.opts.Dir.OpenStackState(), c.opts.Settle
	config.ComputeZones, config.VolumeZones = c.opts.Nodes.zones(), c.opts.Nodes.zones()
	var err error
	c.real.cloud, err = simulator.New(config)
	return c.real.cloud, err
}

// describe returns the data of the cloud for manifests, with its present credentials.
func describe(cloud testcloud.Cloud) *fixtures.Cloud {
	// clouds.yaml does not name the CA, because no path is right for both the operator and the driver.
	// The CA is a key of its own.
	return &fixtures.Cloud{
		Clouds: string(cloud.CloudsYAML(simulator.Clouds{})), Region: cloud.Info().Regions[0],
		CA: string(cloud.CA()),
	}
}

// RotateCredentials changes the credentials in OpenStack and in the Secrets of all operators and
// drivers. In hosted clusters it changes only the Secrets that somebody deletes afterwards.
func (c *Cluster) RotateCredentials(ctx context.Context) error {
	c.cloud.RotateCredentials(simulator.Rotation{})
	return c.renewCredentials(ctx)
}

func (c *Cluster) renewCredentials(ctx context.Context) error {
	described := describe(c.cloud)
	return c.everyEnvironment(func(s *Environment) error {
		return s.renewCredentials(ctx, described)
	})
}

// playHyperShift creates missing Secrets until ctx ends. It tries again while an API server is
// away. With many guest clusters a shorter interval would burden the API servers.
func (c *Cluster) playHyperShift(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		_ = c.renewCredentials(ctx)
	}, 5*time.Second)
}
