//go:build e2e

package promises

import (
	"path/filepath"
	"testing"

	"github.com/openstack-csi/csi-operator/test/docs/olm"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestReleaseRunsOnNodes installs both drivers on Kubernetes with the files of a release, as
// docs/kubernetes.md says. The nodes pull the operators by digest from a registry. Pods write to
// volumes of both drivers. Then it removes the drivers.
func TestReleaseRunsOnNodes(t *testing.T) {
	x := use(t, kind{plain: true})
	r := x.publish()
	x.leavesNothing(files(), r, func(x *test) {
		x.measures(func() { x.Must(files().install(t.Context(), r)) })
	})
}

// TestOLMInstallsOnNodes installs the operator of Manila and the controller of CSI-Addons from the
// catalog of a release, as docs/olm.md says. OLM runs on this machine.
func TestOLMInstallsOnNodes(t *testing.T) {
	x := use(t, kind{plain: true})
	r := x.publish()
	o := olm.Start(t, olm.Options{
		Kubeconfig: x.Cluster.Dir.AdminKubeconfig(), Logs: x.Cluster.Dir.Logs(),
		Docs: docs, Catalog: filepath.Join(r.folder, "catalog-kubernetes.yaml"),
		Run: func(command string) { x.Must(r.run(t.Context(), command)) },
	})
	packages := []olm.Package{olm.Manila(), olm.CSIAddons()}
	for _, p := range packages {
		o.Install(p)
	}
	for _, p := range packages {
		o.Await(p, "v1.0.0")
	}
	o.AwaitReady(olm.Manila())
	w := x.WriteInStatefulSet("olm", pods.Manila(), "")
	w.MustBeUndisturbed()
	w.MustHaveWritten()
}
