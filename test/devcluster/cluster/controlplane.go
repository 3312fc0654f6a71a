package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// controlPlane is a running control plane with a writer of its objects.
type controlPlane struct {
	*controlplane.ControlPlane

	writer fixtures.Writer
}

// startControlPlane starts a control plane with its files in dir. The definitions are folders of
// additional CRDs.
func (c *Cluster) startControlPlane(
	ctx context.Context, dir paths.Dir, definitions ...string,
) (*controlPlane, error) {
	o := c.opts
	var drivers []string
	for _, operator := range o.Operators {
		drivers = append(drivers, operator.ClusterCSIDriver)
	}
	started, err := controlplane.Start(ctx, controlplane.Options{
		Binaries:   o.Binaries,
		Dir:        filepath.Join(dir.ControlPlanes(), "main"),
		Logs:       dir.Logs(),
		AuditLog:   dir.AuditLog(),
		Kubeconfig: dir.AdminKubeconfig(),
		Stages:     filepath.Join(o.Binaries, "manifests", "stages"),
		CRDs:       append(definitions, filepath.Join(o.Binaries, "manifests", "crds")),

		Address:     c.address(),
		NodeGrace:   o.Nodes.Grace,
		DriverNames: drivers,
	})
	if err != nil {
		return nil, err
	}
	writer, err := fixtures.NewWriter(started.Config())
	if err != nil {
		started.Stop()
		return nil, err
	}
	return &controlPlane{ControlPlane: started, writer: writer}, nil
}

// StopAPI makes the API server of a side unavailable. The guest is used for side guest only.
func (c *Cluster) StopAPI(
	ctx context.Context, side flavour.Side, guest string, how controlplane.How,
) error {
	p, err := c.find(side, guest)
	if err != nil {
		return err
	}
	return p.Suspend(ctx, how)
}

// StartAPI starts it again. It returns when the API server answers.
func (c *Cluster) StartAPI(ctx context.Context, side flavour.Side, guest string) error {
	p, err := c.find(side, guest)
	if err != nil {
		return err
	}
	return p.Resume(ctx)
}

// RotateGuestKubeconfig issues a new certificate for the kubeconfig of a guest cluster.
func (c *Cluster) RotateGuestKubeconfig(ctx context.Context, guest string) error {
	s, err := c.environment(guest)
	if err != nil {
		return err
	}
	return s.renewGuestKubeconfig(ctx)
}

func (c *Cluster) find(side flavour.Side, guest string) (*controlPlane, error) {
	switch side {
	case flavour.ControlPlane:
		return c.management, nil
	case flavour.Guest:
		s, err := c.environment(guest)
		if err != nil {
			return nil, err
		}
		return s.target, nil
	}
	return nil, fmt.Errorf("side %q is not in %q", side, flavour.Sides())
}

func (c *Cluster) environment(guest string) (*Environment, error) {
	if c.opts.Guests == 0 {
		return nil, errors.New("there are no guest clusters")
	}
	i := slices.IndexFunc(c.environments, func(s *Environment) bool { return s.Guest == guest })
	if i < 0 {
		return nil, fmt.Errorf("there is no guest cluster %q", guest)
	}
	return c.environments[i], nil
}
