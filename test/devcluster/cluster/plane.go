package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"

	"github.com/openstack-csi/csi-operator/test/devcluster/build"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/layout"
	"github.com/openstack-csi/csi-operator/test/devcluster/seed"
)

// plane is a running control plane with all that is needed to fill it.
type plane struct {
	*controlplane.ControlPlane

	dir    layout.Dir
	client kubernetes.Interface
	writer seed.Writer
}

// startPlane starts the control plane that has its files in dir. The definitions are
// folders of CRDs beside those of every cluster.
func startPlane(ctx context.Context, o Options, dir layout.Dir, definitions ...string) (*plane, error) {
	var drivers []string
	for _, operator := range o.Operators {
		drivers = append(drivers, operator.ClusterCSIDriver)
	}
	started, err := controlplane.Start(ctx, controlplane.Options{
		Binaries: o.Binaries,
		Dir:      filepath.Join(dir.ControlPlanes(), "main"),
		Logs:     dir.Logs(),
		AuditLog: dir.AuditLog(),
		Stages:   build.Stages(o.Binaries),
		CRDs:     append([]string{build.CRDs(o.Binaries)}, definitions...),

		DriverNames: drivers,
	})
	if err != nil {
		return nil, err
	}
	p := &plane{ControlPlane: started, dir: dir}
	if p.client, err = kubernetes.NewForConfig(started.Config()); err == nil {
		p.writer, err = seed.NewWriter(started.Config())
	}
	if err == nil {
		err = p.writeAdminKubeconfig()
	}
	if err != nil {
		started.Stop()
		return nil, err
	}
	return p, nil
}

func (p *plane) writeAdminKubeconfig() error {
	content, err := seed.AdminKubeconfig(p.Config())
	if err != nil {
		return err
	}
	return writeFile(p.dir.AdminKubeconfig(), content)
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of %q: %w", path, err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}
