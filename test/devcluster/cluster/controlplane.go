package cluster

import (
	"context"
	"path/filepath"

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
