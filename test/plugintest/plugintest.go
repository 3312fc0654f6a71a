// Package plugintest checks driver plugins. Its callers are the tests of the plugins.
package plugintest

import (
	"regexp"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// Check checks what pkg/operator expects of a driver plugin: names, and components that are
// complete. Each plugin has a test that calls it.
func Check(tb testing.TB, d plugin.Driver, dependencies plugin.Dependencies) {
	tb.Helper()
	word := regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	assert.Check(tb, word.MatchString(d.ConditionPrefix), "ConditionPrefix %q", d.ConditionPrefix)
	assert.Check(tb, d.Assets != nil, "Assets")
	assert.Check(tb, d.Namespace == "" || validation.IsDNS1123Label(d.Namespace) == nil,
		"Namespace %q", d.Namespace)
	if d.Setup == nil {
		return
	}
	c, err := d.Setup(dependencies)
	assert.NilError(tb, err)
	for i, h := range c.ControllerHooks {
		assert.Check(tb, (h.Deployment != nil || h.DaemonSet == nil) && complete(h),
			"ControllerHooks[%d]", i)
	}
	for i, h := range c.NodeHooks {
		assert.Check(tb, (h.DaemonSet != nil || h.Deployment == nil) && complete(h), "NodeHooks[%d]", i)
	}
	assert.Check(tb, !slices.Contains(c.Controllers, nil), "Controllers contains nil")
	assert.Check(tb, c.Probe == nil && !c.StartWhenAvailable ||
		c.Probe != nil && word.MatchString(c.Probe.Service), "Probe, or StartWhenAvailable without one")
}

func complete(h hook.Workload) bool { return !slices.Contains(h.Informers, nil) }
