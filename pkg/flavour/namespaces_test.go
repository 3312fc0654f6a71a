package flavour_test

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

func TestNamespacesOfEachFlavour(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name             string
		flavour          flavour.Flavour
		operator, driver string
		want             flavour.Namespaces
	}{
		{
			"standalone", flavour.Standalone, "openshift-cluster-csi-drivers", "openshift-manila-csi-driver",
			flavour.Namespaces{
				Operator: "openshift-cluster-csi-drivers", ControlPlane: "openshift-manila-csi-driver",
				Guest:      "openshift-manila-csi-driver",
				UserConfig: "openshift-config", CloudConfig: "cloud-provider-config",
				Events: "openshift-cluster-csi-drivers", Monitoring: "openshift-monitoring",
			},
		},
		{
			"standalone, no namespace of its own", flavour.Standalone, "op", "",
			flavour.Namespaces{
				Operator: "op", ControlPlane: "openshift-cluster-csi-drivers",
				Guest:      "openshift-cluster-csi-drivers",
				UserConfig: "openshift-config", CloudConfig: "cloud-provider-config",
				Events: "op", Monitoring: "openshift-monitoring",
			},
		},
		{
			"kubernetes", flavour.Kubernetes, "any", "openshift-manila-csi-driver",
			flavour.Namespaces{
				Operator: "any", ControlPlane: "any", Guest: "any", Events: "any",
			},
		},
		{
			"hypershift", flavour.HyperShift, "clusters-a", "openshift-manila-csi-driver",
			flavour.Namespaces{
				Operator: "clusters-a", ControlPlane: "clusters-a", Guest: "openshift-manila-csi-driver",
				UserConfig: "clusters-a", CloudConfig: "openstack-cloud-config",
				Events: "openshift-cluster-csi-drivers", Monitoring: "openshift-monitoring",
			},
		},
		{
			"hypershift, no namespace of its own", flavour.HyperShift, "clusters-a", "",
			flavour.Namespaces{
				Operator: "clusters-a", ControlPlane: "clusters-a", Guest: "openshift-cluster-csi-drivers",
				UserConfig: "clusters-a", CloudConfig: "openstack-cloud-config",
				Events: "openshift-cluster-csi-drivers", Monitoring: "openshift-monitoring",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := test.flavour.Namespaces(test.operator, test.driver)
			assert.Check(t, is.DeepEqual(test.want, got), "namespaces")
			if got.On(flavour.ControlPlane) != test.want.ControlPlane ||
				got.On(flavour.Guest) != test.want.Guest {
				t.Errorf("sides are in %s and %s", got.On(flavour.ControlPlane), got.On(flavour.Guest))
			}
		})
	}
}
