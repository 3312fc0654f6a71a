//go:build e2e

package promises

import (
	"path/filepath"
	"testing"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// TestGuideTakesSnapshot follows docs/kubernetes.md after the installation, which the devcluster
// does: a claim is bound, and its snapshot becomes ready.
func TestGuideTakesSnapshot(t *testing.T) {
	x := use(t, kind{tls: true})
	x.runAfter("kubectl delete volumesnapshot/shared pvc/shared --ignore-not-found")
	page := filepath.Join(docs, "kubernetes.md")
	for _, heading := range []string{"Create a volume", "Take a snapshot", "Troubleshooting"} {
		commands, err := guide.Commands(page, heading)
		x.Must(err)
		for _, command := range commands {
			x.run(command)
		}
	}
}
