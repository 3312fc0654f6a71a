package cluster_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// There is no server to connect to.
func TestConnectSendsNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flavour           flavour.Flavour
		guest, controller []string
	}{
		{flavour.Standalone, []string{"", "openshift-config"}, []string{"", "openshift-config"}},
		{flavour.HyperShift, []string{""}, nil},
	} {
		config := &rest.Config{Host: "https://own.invalid"}
		got, err := cluster.Connect(cluster.Options{
			ControlPlane: config, Guest: config, Flavour: test.flavour,
			Namespaces: test.flavour.Namespaces("operator", "driver"), Driver: "x",
			Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
		})
		assert.NilError(t, err)
		one := got.Side(flavour.ControlPlane) == got.Side(flavour.Guest)
		assert.Check(t, is.Equal(one, test.flavour == flavour.Standalone), "the sides are one")
		assert.Check(t, is.Equal(got.HostedControlPlanes == nil, one), "no HostedControlPlanes")
		for side, want := range map[flavour.Side][]string{
			flavour.Guest: test.guest, flavour.ControlPlane: test.controller,
		} {
			assert.Check(t, is.DeepEqual(sets.New(want...), got.Side(side).Informers.Namespaces()), side)
		}
		assert.Check(t, config.QPS == 0, "the caller's config is changed")
	}
}
