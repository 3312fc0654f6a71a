//go:build integration && long

package integration

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// forwardProxy is a proxy to a cloud whose host name cannot be resolved.
type forwardProxy struct {
	url    string
	served atomic.Int64
	server *httptest.Server

	mu      sync.Mutex
	tunnels []net.Conn
}

// startProxy starts a proxy to the cloud.
func startProxy(t *testing.T, cloud simulator.Info) *forwardProxy {
	t.Helper()
	auth, err := url.Parse(cloud.AuthURL)
	assert.NilError(t, err)
	target := net.JoinHostPort("127.0.0.1", auth.Port())
	p := &forwardProxy{}
	plain := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", target, r.In.Host
	}}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.served.Add(1)
		if r.Method == http.MethodConnect {
			p.tunnel(w, r, target)
			return
		}
		plain.ServeHTTP(w, r)
	}))
	p.url = p.server.URL
	t.Cleanup(p.close)
	return p
}

// tunnel copies data between client and cloud until one of them closes its connection.
func (p *forwardProxy) tunnel(w http.ResponseWriter, r *http.Request, target string) {
	cloud, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", target)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		_ = cloud.Close()
		return
	}
	client, _, err := hijacker.Hijack()
	if err != nil {
		_ = cloud.Close()
		return
	}
	p.mu.Lock()
	p.tunnels = append(p.tunnels, client, cloud)
	p.mu.Unlock()
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() {
		_, _ = io.Copy(cloud, client)
		_ = cloud.Close()
	}()
	_, _ = io.Copy(client, cloud)
	_ = client.Close()
}

// close closes the proxy and its connections. It may be called again.
func (p *forwardProxy) close() {
	p.mu.Lock()
	for _, c := range p.tunnels {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.server.CloseClientConnections()
	p.server.Close()
}

// mustUseProxy checks that the operator has used the proxy, and that it reports a closed proxy.
func (e *env) mustUseProxy(p *forwardProxy) {
	e.t.Helper()
	if p.served.Load() == 0 {
		e.t.Error("the proxy was not used")
	}
	p.close()
	if !e.subject.isManila() { // the operator probes the cloud less often than Manila's
		(&cinderEnv{e}).triggerZoneProbe()
	}
	condition := ofSubject(e.subject, reachable, cinderReachable)
	e.eventually(soon, func() error {
		return e.hasCondition(condition, opv1.ConditionFalse, unreachableReason, "proxy")
	})
}
