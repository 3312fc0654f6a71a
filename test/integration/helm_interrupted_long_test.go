//go:build integration && long && helm

package integration

import (
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// interruptions are how often each command of a history loses its connection.
const interruptions = 2

// TestHelmMoveGoesOnAfterInterruptions moves from the charts of cloud-provider-openstack, and back,
// by the commands of docs/from-charts.md. Each loses its connection to the API server after some of
// its writes, and runs again. No object that volumes need is deleted or created again, and in the
// end all is as after commands that ran to their end.
func TestHelmMoveGoesOnAfterInterruptions(t *testing.T) {
	t.Parallel()
	for name := range helms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newInterruptedMove(startHelm(t, name))
			moved := m.follows(0, "Prepare", "Move")
			back := m.follows(0, "Go back")
			m.follows(interruptions, "Prepare")
			assert.Check(t, is.DeepEqual(moved, m.follows(interruptions, "Move")))
			assert.Check(t, is.DeepEqual(back, m.follows(interruptions, "Go back")))
		})
	}
}

// interruptedMove is a cluster that moves from the charts, and back, over a connection that ends.
type interruptedMove struct {
	*helmCluster

	connection *connection
	kubeconfig string
	// kept are the objects that volumes need, with their UIDs.
	kept string
	seed *rand.Rand
}

func newInterruptedMove(h *helmCluster) *interruptedMove {
	h.t.Helper()
	file := filepath.Join(string(h.dir), "others.yaml")
	h.must(os.WriteFile(file, []byte(others), 0o600))
	h.run("helm install cinder-csi " + otherChart(h.t, "cinder-csi-plugin") +
		" --namespace=kube-system --values=" + file)
	h.run("helm install manila-csi " + otherChart(h.t, "manila-csi-plugin") +
		" --namespace=manila-csi --create-namespace --set=csimanila.clusterID=shares")
	h.run("kubectl create secret generic shares --from-literal=os-authURL=https://k:5000/v3 " +
		"--from-literal=os-applicationCredentialID=app " +
		"--from-literal=os-applicationCredentialSecret=confidential")
	seed := rand.Uint64()
	h.t.Logf("seed %d", seed)
	m := &interruptedMove{
		helmCluster: h, seed: rand.New(rand.NewPCG(seed, 0)),
		kubeconfig: filepath.Join(string(h.dir), "interrupted.kubeconfig"),
	}
	m.connection = connect(h.scope, h.cluster.config, m.kubeconfig)
	m.kept = m.needed()
	return m
}

// needed returns the objects of the charts that volumes need, with their UIDs.
func (m *interruptedMove) needed() string {
	m.t.Helper()
	output, err := guide.Output(m.ctx(), `kubectl get storageclasses,csidrivers --output=name |
grep -E 'csi-cinder-sc|/sas$|openstack.org' | sort |
xargs kubectl get --output=jsonpath='{range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}'
kubectl get secret shares --output=jsonpath={.metadata.uid}
kubectl get secret cloud-config --namespace=kube-system --output=jsonpath={.metadata.uid}`,
		m.variables()...)
	m.must(err)
	return output
}

// follows runs the commands of sections, each with some interruptions, and returns the
// objects, but no records of Helm. No operator runs, so that Helm cannot wait for one.
func (m *interruptedMove) follows(interruptions int, headings ...string) (objects []string) {
	m.t.Helper()
	for _, heading := range headings {
		commands, err := guide.Commands(filepath.Join(repository, "docs/from-charts.md"), heading)
		m.must(err)
		for _, command := range commands {
			if strings.Contains(command, "=condition=Ready") || command == "kubectl openstack-csi check\n" {
				continue
			}
			command = strings.NewReplacer(" --wait --timeout=5m", "",
				"values.yaml", string(m.dir)+"/values.yaml").Replace(command)
			for range interruptions {
				m.interrupts(command)
			}
			m.runs(releases + m.again(interruptions > 0) + command)
		}
	}
	needed := m.needed()
	assert.Check(m.t, needed == m.kept, "%v: volumes need %s, now %s", headings, m.kept, needed)
	created := []string{"ControllerRevision", "IPAddress", "Pod", "PodMetrics", "ReplicaSet"}
	return slices.DeleteFunc(m.objects(), func(object string) bool { // what Kubernetes creates
		kind, _, _ := strings.Cut(object, " ")
		return strings.Contains(object, "/sh.helm.release.v1.") || slices.Contains(created, kind)
	})
}

// again returns the command that precedes one that was interrupted.
func (m *interruptedMove) again(interrupted bool) string {
	m.t.Helper()
	if !interrupted {
		return ""
	}
	commands, err := guide.Commands(filepath.Join(repository, "docs/from-charts.md"),
		"If a command ends too early")
	m.must(err)
	return strings.Join(commands, "\n")
}

// releases names the releases of the charts.
const releases = `RELEASES="kube-system/cinder-csi manila-csi/manila-csi"` + "\n"

// interrupts runs a command that loses its connection after at most 40 writes.
func (m *interruptedMove) interrupts(command string) {
	m.t.Helper()
	writes := m.seed.Int64N(40)
	m.connection.left.Store(writes)
	err := guide.Run(m.ctx(), withChart+releases+m.again(true)+command,
		append(m.variables(), "KUBECONFIG="+m.kubeconfig)...)
	m.t.Logf("after %d writes: %v", writes, err)
}

// connection is a proxy of an API server that serves a number of writes, and then nothing.
type connection struct {
	left    atomic.Int64
	forward *httputil.ReverseProxy
}

// connect starts the proxy, which uses the administrator's certificate, and writes a kubeconfig.
func connect(s *scope, config *rest.Config, path string) *connection {
	s.t.Helper()
	transport, err := rest.TransportFor(config)
	s.must(err)
	target, err := url.Parse(config.Host)
	s.must(err)
	silent := log.New(io.Discard, "", 0)
	c := &connection{forward: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, FlushInterval: -1, ErrorLog: silent,
	}}
	server := httptest.NewUnstartedServer(c)
	server.Config.ErrorLog = silent
	server.Start()
	s.t.Cleanup(server.Close)
	s.t.Cleanup(server.CloseClientConnections)
	proxied := clientcmdapi.NewConfig()
	proxied.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server.URL}
	proxied.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	proxied.CurrentContext = "proxy"
	s.must(clientcmd.WriteToFile(*proxied, path))
	return c
}

// ServeHTTP ends requests without an answer when no write is left.
func (c *connection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && c.left.Add(-1) < 0 || c.left.Load() < 0 {
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http requires it
	}
	c.forward.ServeHTTP(w, r)
}
