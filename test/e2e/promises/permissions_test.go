//go:build e2e

package promises

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestSidecarsHaveTheirPermissions searches the logs of all containers of the controllers for
// requests that the API server refused.
func TestSidecarsHaveTheirPermissions(t *testing.T) {
	x := use(t, kind{tls: true})
	// The sidecars of the leaders work.
	x.mustHaveWritten(x.write("permissions-volume", pods.Cinder()), "permissions-volume")
	x.mustHaveWritten(x.write("permissions-share", pods.Manila()), "permissions-share")
	for _, w := range x.controllers() {
		for _, pod := range x.podsOf(w) {
			log := x.kubectl("logs", "--namespace="+pod.Namespace, pod.Name, "--all-containers",
				"--prefix")
			assert.Check(t, strings.Contains(log, "/csi-resizer]"),
				"the log of pod %s contains no line of csi-resizer", pod.Name)
			for line := range strings.Lines(log) {
				assert.Check(t, !strings.Contains(line, "forbidden"), line)
			}
		}
	}
}
