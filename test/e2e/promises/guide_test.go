//go:build e2e

package promises

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// TestGuideTakesSnapshot follows docs/kubernetes.md after the installation, which the devcluster
// does: a claim is bound, and its snapshot becomes ready.
func TestGuideTakesSnapshot(t *testing.T) {
	x := use(t, kind{tls: true})
	env := []string{
		"KUBECONFIG=" + x.Cluster.Dir.AdminKubeconfig(),
		"PATH=" + x.Cluster.Binaries + string(os.PathListSeparator) + os.Getenv("PATH"),
	}
	x.CleanUp(func(ctx context.Context) error {
		return guide.Run(ctx, "kubectl delete volumesnapshot/shared pvc/shared --ignore-not-found",
			env...)
	})
	page := filepath.Join("..", "..", "..", "docs", "kubernetes.md")
	for _, heading := range []string{"Create a volume", "Take a snapshot", "Troubleshooting"} {
		commands, err := guide.Commands(page, heading)
		x.Must(err)
		for _, command := range commands {
			x.Must(guide.Run(t.Context(), command, env...))
		}
	}
}
