//go:build e2e

package promises

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// TestSidecarsHaveTheirPermissions searches the logs of all containers of the controllers for
// requests that the API server refused.
func TestSidecarsHaveTheirPermissions(t *testing.T) {
	x := use(t, kind{tls: true})
	// The sidecars of the leaders work.
	x.write("permissions").mustHaveWritten()
	for _, w := range x.controllers() {
		for _, pod := range x.podsOf(w) {
			log := x.run("kubectl logs --all-containers --prefix -n " + pod.Namespace + " " + pod.Name)
			assert.Check(t, strings.Contains(log, "/csi-resizer]"),
				"the log of pod %s contains no line of csi-resizer", pod.Name)
			for line := range strings.Lines(log) {
				assert.Check(t, !strings.Contains(line, "forbidden"), line)
			}
		}
	}
}
