//go:build e2e

// Package csiaddons tests CSI-Addons on real nodes: the space of Cinder volumes returns to the
// cloud, and a fenced node loses its access to Manila shares. `make test-e2e-csi-addons` runs it.
package csiaddons

import (
	"errors"
	"os"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/e2e/cluster"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// running is the cluster of all tests. The first test starts it.
var running *cluster.Cluster //nolint:gochecknoglobals // TestMain cannot pass values to tests

func TestMain(m *testing.M) {
	code := m.Run()
	if running != nil {
		running.Stop()
	}
	os.Exit(code)
}

// nodeGrace is the default of Kubernetes: a lost node is not ready after this time.
const nodeGrace = 50 * time.Second

// test is a running test with its cluster, and a client of all objects.
type test struct {
	*pods.Test

	client client.Client
}

// use returns a test with a cluster whose drivers have CSI-Addons.
func use(t *testing.T) *test {
	t.Helper()
	if running == nil {
		started, err := cluster.Start(t.Context(), cluster.Options{
			Name: "csi-addons", Drivers: []string{"cinder", "manila"}, Nodes: 2, CSIAddons: true,
			NodeGrace: nodeGrace, Progress: os.Stderr,
		})
		assert.NilError(t, err)
		running = started
	}
	x := &test{Test: &pods.Test{T: t, Cluster: running}}
	scheme := runtime.NewScheme()
	x.Must(errors.Join(v1alpha1.AddToScheme(scheme), clientscheme.AddToScheme(scheme)))
	var err error
	x.client, err = client.New(running.Config, client.Options{Scheme: scheme})
	x.Must(err)
	return x
}
