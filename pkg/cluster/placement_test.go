package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name             string
		flavour          flavour.Flavour
		operator, driver string
		want             cluster.Placement
	}{
		{
			"standalone", flavour.Standalone, "openshift-cluster-csi-drivers", "openshift-manila-csi-driver",
			cluster.Placement{
				Operator: "openshift-cluster-csi-drivers", Controller: "openshift-manila-csi-driver", Node: "openshift-manila-csi-driver",
				UserConfig: "openshift-config", CloudConfig: "cloud-provider-config", Events: "openshift-cluster-csi-drivers",
			},
		},
		{
			"standalone, no namespace of its own", flavour.Standalone, "op", "",
			cluster.Placement{
				Operator: "op", Controller: "openshift-cluster-csi-drivers", Node: "openshift-cluster-csi-drivers",
				UserConfig: "openshift-config", CloudConfig: "cloud-provider-config", Events: "op",
			},
		},
		{
			"hypershift", flavour.HyperShift, "clusters-a", "openshift-manila-csi-driver",
			cluster.Placement{
				Operator: "clusters-a", Controller: "clusters-a", Node: "openshift-manila-csi-driver",
				UserConfig: "clusters-a", CloudConfig: "openstack-cloud-config", Events: "openshift-cluster-csi-drivers",
			},
		},
		{
			"hypershift, no namespace of its own", flavour.HyperShift, "clusters-a", "",
			cluster.Placement{
				Operator: "clusters-a", Controller: "clusters-a", Node: "openshift-cluster-csi-drivers",
				UserConfig: "clusters-a", CloudConfig: "openstack-cloud-config", Events: "openshift-cluster-csi-drivers",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := cluster.Place(test.flavour, test.operator, test.driver)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("placement (-want +got):\n%s", diff)
			}
			if got.Namespace(bundle.Controller) != test.want.Controller || got.Namespace(bundle.Guest) != test.want.Node {
				t.Errorf("sides are in %s and %s", got.Namespace(bundle.Controller), got.Namespace(bundle.Guest))
			}
		})
	}
}
