//go:build integration

package integration

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	devcluster "github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/site"
)

// suite is what all tests share.
type suite struct {
	site.Folders

	pools map[flavour.Flavour]*site.Pool[*testCluster]
	all   []*testCluster // of all pools
	// operators are those that cluster-storage-operator deploys, by driver.
	operators map[string]fixtures.Operator
}

// shared is set by TestMain before any test runs.
var shared *suite //nolint:gochecknoglobals // TestMain cannot pass values to tests.

func TestMain(m *testing.M) {
	pairs := 1 // a running API server costs CPU time even if it is idle
	if long {
		pairs = 2
	}
	limits := map[flavour.Flavour]*int{
		flavour.Standalone: flag.Int("standalone", 3, "maximum number of standalone clusters"),
		flavour.HyperShift: flag.Int("hypershift", pairs,
			"maximum number of pairs of management and guest cluster"),
	}
	flag.Parse()
	os.Exit(site.Run("csi-operator-integration", func(f site.Folders) int {
		var err error
		if shared, err = newSuite(f, limits); err != nil {
			fmt.Fprintln(os.Stderr, "devcluster:", err)
			return 1
		}
		code := m.Run()
		for _, pool := range shared.pools {
			pool.Stop()
		}
		if code == 0 {
			code = shared.checkReleases()
		}
		if code == 0 && ranWholeSuite() {
			code = shared.checkPermissions()
		}
		return code
	}))
}

// checkReleases returns 1 if a release of OpenShift would have refused a request of an operator.
func (s *suite) checkReleases() int {
	refused, err := s.refusedRequests()
	if err != nil {
		fmt.Fprintln(os.Stderr, "comparing the releases with the audit logs:", err)
		return 1
	}
	for _, request := range refused {
		fmt.Fprintln(os.Stderr, "a release of OpenShift refuses a request:", request)
	}
	return min(len(refused), 1)
}

// checkPermissions returns 1 if the Roles of the operators contain a permission without use.
func (s *suite) checkPermissions() int {
	unused, err := s.unusedPermissions()
	if err != nil {
		fmt.Fprintln(os.Stderr, "comparing the Roles with the audit logs:", err)
		return 1
	}
	for _, permission := range unused {
		fmt.Fprintln(os.Stderr, "no test uses a permission:", permission)
	}
	return min(len(unused), 1)
}

func newSuite(folders site.Folders, limits map[flavour.Flavour]*int) (*suite, error) {
	s := &suite{
		Folders: folders, pools: map[flavour.Flavour]*site.Pool[*testCluster]{},
		operators: map[string]fixtures.Operator{},
	}
	operators, err := fixtures.AllOperators()
	if err != nil {
		return nil, err
	}
	for _, o := range operators {
		s.operators[o.Driver] = o
	}
	for f, limit := range limits {
		if *limit < 1 {
			return nil, fmt.Errorf("-%s=%d is below 1", f, *limit)
		}
		guests := 0
		if f == flavour.HyperShift {
			guests = 1
		}
		var clusters []*testCluster
		for i := range *limit {
			name := fmt.Sprintf("%s-%d", f, i+1)
			clusters = append(clusters, &testCluster{
				flavour: f, name: name, failed: make(chan error, 1), options: devcluster.Options{
					Dir: paths.Dir(filepath.Join(s.Dir, name)), Binaries: s.Kubernetes, NoCloud: true,
					Operators: operators, Guests: guests, Progress: io.Discard,
				},
			})
		}
		s.pools[f] = site.NewPool(clusters)
		s.all = append(s.all, clusters...)
	}
	return s, nil
}
