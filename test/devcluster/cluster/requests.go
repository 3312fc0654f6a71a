package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
)

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
