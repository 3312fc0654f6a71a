package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestObjectsOfEarlierReleasesRunInThisCluster(t *testing.T) {
	t.Parallel()
	cloud, err := simulator.New(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cloud.Close() }) // its listener ends with this process anyway
	// Other drivers have no earlier releases.
	operators, err := fixtures.Operators([]string{"manila", "cinder"})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{cloud: cloud}
	for _, o := range operators {
		for _, release := range []string{"4.17", "4.22", "5.1"} {
			objects, err := c.earlierObjects(o, release)
			if err != nil {
				t.Error(err)
			}
			for _, object := range objects {
				if strings.Contains(fmt.Sprint(object.Object), "example") {
					t.Errorf("%s %s contains an example: %v", release, object.GetName(), object.Object)
				}
			}
		}
		const want = `has no release "4.2", only 4.17, 4.22, 5.1`
		if _, err := c.earlierObjects(o, "4.2"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
