package nfs_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/drivers/nfs"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/plugintest"
)

func TestDriverIsCompanionOfManila(t *testing.T) {
	t.Parallel()
	driver := nfs.Companion("a-namespace")
	plugintest.Check(t, driver, plugin.Dependencies{})
	assert.Check(t, driver.Namespace == "a-namespace" && driver.Setup == nil,
		"got %+v, want the leader's namespace, and no behaviour", driver)
	for _, f := range flavour.All() {
		loaded, err := bundle.Load(driver.Assets, f)
		assert.NilError(t, err)
		got := loaded.Select(bundle.NodeWorkload, flavour.Guest)
		assert.Check(t, len(got) == 1 && len(loaded.Assets()) == 1,
			"%s: %d assets, want a DaemonSet of the guest and nothing else", f, len(loaded.Assets()))
	}
}
