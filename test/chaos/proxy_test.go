//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// longestHang is how long the proxies let a request hang at most.
const longestHang = 12 * time.Second

// trouble is what all proxies do to requests.
type trouble struct {
	mu     sync.Mutex
	random *rand.Rand
	// share of the requests fails.
	share   float64
	watches map[*call]context.CancelFunc
}

func newTrouble(random *rand.Rand) *trouble {
	return &trouble{random: random, watches: map[*call]context.CancelFunc{}}
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

// watch returns a context that ends when cutWatches is called.
func (t *trouble) watch(ctx context.Context, c *call) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watches[c] = cancel
	return ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watches, c)
		cancel()
	}
}

// cutWatches breaks all watches.
func (t *trouble) cutWatches() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cancel := range t.watches {
		cancel()
	}
}

// call is a request of a replica.
type call struct {
	replica    *replica
	side       string
	info       *request.RequestInfo
	began      time.Time
	answered   time.Time // zero if there was no answer
	code       int
	isInvented bool // the proxy answered
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
func (c *call) succeeded() bool { return !c.isInvented && c.code >= 200 && c.code < 300 }

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

func (j *journal) answer(c *call, code int, invented bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.answered, c.code, c.isInvented = time.Now(), code, invented
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

// most returns the most frequent kinds of requests.
func most(calls []call) string {
	counts := map[string]int{}
	for _, c := range calls {
		counts[fmt.Sprintf("%s %s %d", c.info.Verb, c.info.Resource, c.code)]++
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	const shown = 8
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return strings.Join(kinds[:min(len(kinds), shown)], ", ")
}

// proxy is between one replica and one API server. It forwards credentials.
type proxy struct {
	replica *replica
	side    string
	trouble *trouble
	journal *journal
	server  *httptest.Server
	forward *httputil.ReverseProxy
}

type callKey struct{}

// newProxy starts a proxy, which runs until the test ends. A client certificate of the
// configuration is used for all requests.
func newProxy(t *testing.T, w *world, r *replica, side string, config *rest.Config) *proxy {
	t.Helper()
	transport, err := rest.TransportFor(&rest.Config{
		Host: config.Host, TLSClientConfig: config.TLSClientConfig,
	})
	w.must(err)
	target, err := url.Parse(config.Host)
	w.must(err)
	p := &proxy{replica: r, side: side, trouble: w.trouble, journal: &w.journal}
	silent := log.New(io.Discard, "", 0)
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      silent,
		ModifyResponse: func(response *http.Response) error {
			c, _ := response.Request.Context().Value(callKey{}).(*call)
			p.journal.answer(c, response.StatusCode, false)
			return nil
		},
		// The client notices that there is no answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { hangUp() },
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2, p.server.Config.ErrorLog = true, silent
	p.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	p.server.StartTLS()
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// ca returns the certificate of the proxy.
func (p *proxy) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

// hangUp ends a request without an answer.
func hangUp() { panic(http.ErrAbortHandler) } //nolint:forbidigo // net/http requires it.

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, err := factory().NewRequestInfo(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := &call{replica: p.replica, side: p.side, info: info}
	p.journal.begin(c)
	ctx := context.WithValue(r.Context(), callKey{}, c)
	if status, delay := p.trouble.next(); status != 0 {
		p.invent(ctx, w, c, status, delay)
		return
	}
	if info.Verb == "watch" {
		watching, done := p.trouble.watch(ctx, c)
		defer done()
		ctx = watching
	}
	p.forward.ServeHTTP(w, r.WithContext(ctx))
}

// invent answers in place of the API server.
func (p *proxy) invent(
	ctx context.Context, w http.ResponseWriter, c *call, status int, delay time.Duration,
) {
	if status < 0 {
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		hangUp()
	}
	p.journal.answer(c, status, true)
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // this fails only if the client is gone
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(status), Message: "the proxy refuses the request",
	})
}

// factory reads requests as the API server does.
func factory() *request.RequestInfoFactory {
	return &request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
}
