// Package cloud runs the OpenStack of a devcluster, the simulator, and saves its address. Packages
// cluster and command call it.
package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
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
			{Name: "default", Default: true},
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
func Describe(ctx context.Context, client *simulator.Client) (fixtures.Cloud, error) {
	info, err := client.Info(ctx)
	if err != nil {
		return fixtures.Cloud{}, err
	}
	// clouds.yaml does not name the CA, because no path is right for both the operator and the driver.
	// The CA is a key of its own.
	clouds, err := client.CloudsYAML(ctx, simulator.Clouds{})
	if err != nil {
		return fixtures.Cloud{}, err
	}
	described := fixtures.Cloud{Clouds: string(clouds), Region: info.Regions[0]}
	if info.TLS {
		ca, err := client.CA(ctx)
		if err != nil {
			return fixtures.Cloud{}, err
		}
		described.CA = string(ca)
	}
	return described, nil
}

// Save writes the address of the simulator to a file.
func Save(path string, info simulator.Info) error {
	content, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the address of the simulator: %w", err)
	}
	return paths.WriteFile(path, append(content, '\n'))
}

// Connect returns a client of the simulator whose address Save wrote.
func Connect(path string) (*simulator.Client, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("no OpenStack simulator is running here: %w", err)
	}
	var info simulator.Info
	if err := json.Unmarshal(content, &info); err != nil {
		return nil, fmt.Errorf("decoding %q: %w", path, err)
	}
	return simulator.NewClient(info.Control), nil
}
