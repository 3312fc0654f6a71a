// Package cloud runs the OpenStack of a devcluster, the simulator. Package cluster calls it.
package cloud

import (
	"context"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Kinds of cloud.
const (
	// None means no OpenStack: no credentials are created.
	None = "none"
	// Simulator runs the simulator inside this process.
	Simulator = "simulator"
)

// Start starts a simulator with two share types. It stops when ctx ends or Close is called.
func Start(ctx context.Context, tls bool) (*simulator.Simulator, error) {
	s, err := simulator.New(simulator.Config{
		TLS: tls,
		ShareTypes: []simulator.ShareType{
			{Name: "default"},
			{Name: "fast"},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Describe returns the data of the simulator for manifests, with the credentials that are valid
// now.
func Describe(ctx context.Context, s *simulator.Simulator) (fixtures.Cloud, error) {
	// clouds.yaml does not name the CA, because no path is right for both the operator and the driver.
	// The CA is a key of its own.
	clouds, err := s.CloudsYAML(ctx, simulator.Clouds{})
	if err != nil {
		return fixtures.Cloud{}, err
	}
	described := fixtures.Cloud{Clouds: string(clouds), Region: s.Info().Regions[0]}
	if s.Info().TLS {
		ca, err := s.CA(ctx)
		if err != nil {
			return fixtures.Cloud{}, err
		}
		described.CA = string(ca)
	}
	return described, nil
}
