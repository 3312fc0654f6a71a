//go:build integration

package csiaddons

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/site"
)

// clusters are those that tests share. TestMain sets it before any test runs.
var clusters *site.Pool[*cluster] //nolint:gochecknoglobals // TestMain cannot pass values to tests.

func TestMain(m *testing.M) {
	number := flag.Int("clusters", 3, "maximum number of clusters")
	flag.Parse()
	os.Exit(site.Run("csi-addons", func(f site.Folders) int {
		var all []*cluster
		for i := range max(1, *number) {
			all = append(all, &cluster{
				dir: paths.Dir(filepath.Join(f.Dir, strconv.Itoa(i))), kubernetes: f.Kubernetes,
			})
		}
		clusters = site.NewPool(all)
		defer clusters.Stop()
		return m.Run()
	}))
}

// cluster is a control plane that tests share.
type cluster struct {
	dir        paths.Dir
	kubernetes string // the folder of the programs

	plane  *controlplane.ControlPlane // nil until a test starts it
	config *rest.Config
	client client.Client
	store  *site.Store
}

func (c *cluster) String() string { return "cluster " + filepath.Base(string(c.dir)) }

// Prepare starts the cluster, or resets it if it runs already.
func (c *cluster) Prepare(ctx context.Context) error {
	if c.plane != nil {
		return c.store.Reset(ctx)
	}
	if err := c.dir.Clear(); err != nil {
		return err
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Binaries: c.kubernetes,
		Dir:      filepath.Join(c.dir.ControlPlanes(), "main"), Logs: c.dir.Logs(),
		AuditLog: c.dir.AuditLog(), Kubeconfig: c.dir.AdminKubeconfig(),
		Stages: filepath.Join(c.kubernetes, "manifests", "stages"),
		CRDs:   []string{filepath.Join(c.kubernetes, "manifests", "crds")},
	})
	if err != nil {
		return err
	}
	if err := c.connect(ctx, plane); err != nil {
		plane.Stop()
		return err
	}
	c.plane = plane
	return nil
}

// Stop stops the cluster, if it runs.
func (c *cluster) Stop() {
	if c.plane != nil {
		c.plane.Stop()
	}
}

// connect creates the client, and records what the cluster contains.
func (c *cluster) connect(ctx context.Context, plane *controlplane.ControlPlane) error {
	c.config = plane.Config()
	fast := plane.Config()
	fast.QPS = -1
	known := runtime.NewScheme()
	err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known),
		apiextensionsv1.AddToScheme(known))
	if err != nil {
		return err
	}
	if c.client, err = client.New(fast, client.Options{Scheme: known}); err != nil {
		return err
	}
	c.store, err = site.NewStore(ctx, plane.Etcd())
	return err
}
