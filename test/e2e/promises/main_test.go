//go:build e2e

// Package promises tests what the operators promise about running drivers, on real nodes: pods
// write to volumes while the operators change the drivers. `make test-promises` runs it.
//
// One cluster runs at a time. Tests that need the same cluster share it, one after another.
package promises

import (
	"net/http"
	"os"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/e2e/cluster"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// running is the cluster that runs.
var running lab //nolint:gochecknoglobals // TestMain cannot pass values to tests

func TestMain(m *testing.M) {
	code := m.Run()
	running.stop()
	os.Exit(code)
}

// kind is the kind of a cluster.
type kind struct {
	// tls means that OpenStack has a private CA.
	tls bool
	// plain means that the cluster contains nothing of OpenShift, and no operators.
	plain bool
}

// lab contains at most one cluster.
type lab struct {
	*cluster.Cluster

	kind kind
	// registry serves images of releases, by version. Their files are in folder.
	registry *http.Server
	releases map[string]published
	folder   string
}

// use returns a test with a cluster of a kind.
func use(t *testing.T, wanted kind) *test {
	t.Helper()
	if running.Cluster == nil || running.kind != wanted {
		running.stop()
		drivers := []string{"manila", "cinder"}
		if wanted.plain {
			drivers = nil
		}
		started, err := cluster.Start(t.Context(), cluster.Options{
			Name: "promises", Drivers: drivers, Nodes: 2,
			TLS: wanted.tls, Progress: os.Stderr,
		})
		assert.NilError(t, err)
		running = lab{Cluster: started, kind: wanted}
		if wanted.plain {
			running.makePlain(t)
		}
	}
	c := running.Cluster
	t.Cleanup(func() { c.MustHaveSentListedRequests(t) })
	return &test{&pods.Test{T: t, Cluster: c}}
}

// makePlain removes the definitions of snapshots, which the control plane contains, and names the
// operators that releases install.
func (l *lab) makePlain(t *testing.T) {
	t.Helper()
	x := &test{&pods.Test{T: t, Cluster: l.Cluster}}
	x.run(`kubectl get crds -o name | grep '\.snapshot\.storage\.k8s\.io$' | xargs kubectl delete`)
	var err error
	l.Operators, err = fixtures.KubernetesOperators([]string{"manila", "cinder"})
	x.Must(err)
}

// stop stops the cluster, if one runs.
func (l *lab) stop() {
	if l.Cluster != nil {
		l.Stop()
	}
	if l.folder != "" {
		_ = l.registry.Close()
		_ = os.RemoveAll(l.folder)
	}
	*l = lab{}
}
