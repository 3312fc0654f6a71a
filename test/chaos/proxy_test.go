//go:build chaos

package chaos

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// longestHang is how long the proxies let a request hang at most.
const longestHang = 12 * time.Second

// trouble is what all proxies do to requests.
type trouble struct {
	mu     sync.Mutex
	random *rand.Rand
	// share of the requests fails.
	share float64
	// cut is closed when all watches break.
	cut chan struct{}
}

// fail makes a share of the requests fail from now on.
func (t *trouble) fail(share float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.share = share
}

// next decides how a request is answered: by the API server if the status is 0, otherwise by the
// proxy after a delay. Status -1 means that the connection breaks after it.
func (t *trouble) next() (status int, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.random.Float64() >= t.share {
		return 0, 0
	}
	status = []int{
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, -1,
	}[t.random.IntN(4)]
	if status < 0 {
		delay = time.Duration(t.random.Int64N(int64(longestHang)))
	}
	return status, delay
}

// cutWatches breaks all watches.
func (w *world) cutWatches() {
	w.trouble.mu.Lock()
	defer w.trouble.mu.Unlock()
	close(w.trouble.cut)
	w.trouble.cut = make(chan struct{})
}

// watch returns a context that ends when cutWatches is called.
func (t *trouble) watch(ctx context.Context) (context.Context, func()) {
	t.mu.Lock()
	cut := t.cut
	t.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-cut:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// call is a request of a replica.
type call struct {
	replica  *replica
	side     *side
	info     *request.RequestInfo
	began    time.Time
	answered time.Time
	code     int // 0 if the API server did not answer
}

// isWrite returns true for requests that change objects other than Leases and events. Reviews and
// requests for tokens change nothing.
func (c *call) isWrite() bool {
	verbs := []string{"create", "update", "patch", "delete", "deletecollection"}
	return slices.Contains(verbs, c.info.Verb) && c.info.Subresource != "token" &&
		!slices.Contains([]string{"leases", "events"}, c.info.Resource) &&
		!strings.HasSuffix(c.info.Resource, "reviews")
}

// succeeded returns true if the API server did what the request asked for.
func (c *call) succeeded() bool { return c.code >= 200 && c.code < 300 }

// journal contains the requests of all replicas.
type journal struct {
	mu    sync.Mutex
	calls []*call
}

func (j *journal) begin(c *call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.began = time.Now()
	j.calls = append(j.calls, c)
}

func (j *journal) answer(c *call, code int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.answered, c.code = time.Now(), code
}

// mark returns the current end of the journal.
func (j *journal) mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.calls)
}

// since returns copies of the requests after a mark that the filter accepts.
func (j *journal) since(mark int, accept func(*call) bool) []call {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []call
	for _, c := range j.calls[mark:] {
		if accept(c) {
			found = append(found, *c)
		}
	}
	return found
}

// of returns copies of the requests of a program after a mark that the filter accepts.
func (j *journal) of(p *program, mark int, accept func(*call) bool) []call {
	return j.since(mark, func(c *call) bool { return c.replica.program == p && accept(c) })
}

// all accepts every request.
func all(*call) bool { return true }

// proxy is between one replica and one API server. It forwards credentials.
type proxy struct {
	*world

	replica *replica
	side    *side
	forward *httputil.ReverseProxy
}

type callKey struct{}

// connect starts a proxy between a replica and an API server, which runs until the test ends, and
// writes a kubeconfig of the proxy. The proxy uses the client certificate, if there is one, for all
// requests.
func (w *world) connect(
	r *replica, s *side, client rest.TLSClientConfig, account *clientcmdapi.AuthInfo, path string,
) {
	w.Helper()
	transport, err := rest.TransportFor(&rest.Config{Host: s.config.Host, TLSClientConfig: client})
	w.must(err)
	target, err := url.Parse(s.config.Host)
	w.must(err)
	silent := log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(&proxy{w, r, s, &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      silent,
		ModifyResponse: func(response *http.Response) error {
			c, _ := response.Request.Context().Value(callKey{}).(*call)
			w.journal.answer(c, response.StatusCode)
			return nil
		},
		// The client notices that there is no answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { hangUp() },
	}})
	server.EnableHTTP2, server.Config.ErrorLog = true, silent
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	w.Cleanup(server.Close)
	w.Cleanup(server.CloseClientConnections)

	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{
		Server: server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{
			Type: "CERTIFICATE", Bytes: server.Certificate().Raw,
		}),
	}
	config.AuthInfos["pod"] = account
	config.Contexts["pod"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "pod"}
	config.CurrentContext = "pod"
	w.must(clientcmd.WriteToFile(*config, path))
}

// hangUp ends a request without an answer.
func hangUp() { panic(http.ErrAbortHandler) } //nolint:forbidigo // net/http requires it.

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// It reads requests as the API server does.
	factory := request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
	info, err := factory.NewRequestInfo(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := &call{replica: p.replica, side: p.side, info: info}
	p.journal.begin(c)
	ctx := context.WithValue(r.Context(), callKey{}, c)
	switch status, delay := p.trouble.next(); {
	case status < 0:
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		hangUp()
	case status > 0:
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, "the proxy refuses the request", status)
		return
	}
	if info.Verb == "watch" {
		watching, done := p.trouble.watch(ctx)
		defer done()
		ctx = watching
	}
	p.forward.ServeHTTP(w, r.WithContext(ctx))
}
