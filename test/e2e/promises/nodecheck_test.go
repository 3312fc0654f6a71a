//go:build e2e

package promises

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/kubectl"
	"github.com/openstack-csi/csi-operator/pkg/nodeprobe"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestCheckOfNodes checks both nodes in 20 s. They have the kernel of this machine. Afterwards
// nothing of the check is left.
func TestCheckOfNodes(t *testing.T) {
	x := use(t, kind{tls: true})
	x.Claim("check-nodes", pods.ClaimSpec(pods.Manila()))
	x.awaitBound("check-nodes")
	folder, cloud := t.TempDir(), x.Cluster.Cloud()
	ca, clouds := filepath.Join(folder, "ca.pem"), filepath.Join(folder, "clouds.yaml")
	x.Must(os.WriteFile(ca, cloud.CA(), 0o600))
	x.Must(os.WriteFile(clouds, cloud.CloudsYAML(simulator.Clouds{CACert: ca}), 0o600))
	own := nodeprobe.Node{Files: os.DirFS("/"), Dial: new(net.Dialer).DialContext}.Probe(t.Context())

	begun := time.Now()
	// The exit code is that of the kernel: it may have no client of NFS.
	text, failed := guide.Output(t.Context(), "kubectl openstack-csi check --nodes -o json --clouds="+
		clouds+" 2>"+folder+"/errors", x.terminal()...)
	took := time.Since(begun)
	messages, err := os.ReadFile(folder + "/errors")
	assert.NilError(t, err)
	assert.Check(t, is.Contains(string(messages), "Checking 2 nodes"))
	var found kubectl.Nodes
	x.Must(json.Unmarshal([]byte(text), &found))
	assert.Check(t, is.Len(found.Nodes, len(x.Cluster.Nodes())), text)
	assert.Check(t, (failed == nil) == own.NFS, "%v:\n%s", failed, text)
	for _, node := range found.Nodes {
		r := node.Result
		assert.Assert(t, r != nil, text)
		assert.Check(t, r.Kubelet && r.Metadata != "" && r.Metadata == node.Server && r.NFS == own.NFS &&
			r.SELinux == own.SELinux && r.DMI == own.DMI && len(r.Servers) == 1, text)
		for address, answer := range r.Servers {
			assert.Check(t, is.Equal(answer, nodeprobe.Reached), address)
		}
	}
	assert.Check(t, took < 20*time.Second, "it took %v", took)
	t.Logf("the check took %v", took)
	left := x.run("kubectl get daemonsets -A -l csi.openstack.org/node-check -o name")
	assert.Check(t, is.Equal(strings.TrimSpace(left), ""))
}
