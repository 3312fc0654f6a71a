//go:build integration && long && olm

package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/test/docs/olm"
)

// TestRealOLMInstallsUpgradesAndRemoves runs the real OLM on a control plane that serves nothing of
// OpenShift, with the catalog of a release and then with that of the next one, as docs/olm.md says.
// The operators run with the permissions and the variables that OLM gives them.
func TestRealOLMInstallsUpgradesAndRemoves(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	o := olm.Start(t, olm.Options{
		Kubeconfig: k.dir.AdminKubeconfig(), Logs: k.dir.Logs(),
		Docs: filepath.Join(repository, "docs"), Run: k.run,
		Catalog: filepath.Join(k.release, "catalog-kubernetes.yaml"),
	})
	before := slices.DeleteFunc(k.objects(), func(object string) bool {
		return strings.HasPrefix(object, "CatalogSource ")
	})
	packages := []olm.Package{olm.Manila(), olm.Cinder(), olm.CSIAddons()}
	for _, p := range packages {
		o.Install(p)
	}
	for _, p := range packages {
		o.Await(p, "v1.0.0")
	}
	var stop []func()
	for n, driver := range []string{"manila", "cinder"} {
		stop = append(stop, k.startOperator(driver))
		k.awaitAvailable()
		o.AwaitReady(packages[n])
		k.mustNotReadOpenShift()
	}

	next := filepath.Join(string(k.dir), "next")
	k.writeRelease("v1.1.0", next)
	o.Serve(filepath.Join(next, "catalog-kubernetes.yaml"))
	for _, p := range packages {
		o.Await(p, "v1.1.0")
		k.run(fmt.Sprintf("kubectl wait csv/%s.v1.0.0 -n %s --for=delete --timeout=1m", p.Name,
			p.Namespace))
	}
	// OLM repeats the steps of one that has not ended, so it would create again what is removed.
	k.run("kubectl wait installplan --all --all-namespaces --timeout=2m " +
		"--for=jsonpath='{.status.phase}'=Complete")

	for n, heading := range []string{"Remove Manila", "Remove Cinder"} {
		stop[n]()
		o.Follow(heading)
	}
	o.Follow("Remove CSI-Addons")
	o.Follow("Remove the catalog")
	k.eventually(func() error {
		if diff := cmp.Diff(before, k.objects()); diff != "" {
			return fmt.Errorf("objects before the installation and after the removal:\n%s", diff)
		}
		return nil
	})
}
