package guest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// pipes is a network in memory, which needs no time in a synctest bubble.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.connections <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// busyUpdates is the number of updates in a minute, 20,000 in a day, in the namespace "busy".
const busyUpdates = 14

// quiet is an API server that contains a ConfigMap in each namespace. In each minute it sends a
// bookmark and an update to each watch.
type quiet struct {
	mu       sync.Mutex
	versions int
	lists    map[string]int // by namespace
}

// event returns an event of 1.2 kB.
func (q *quiet) event(kind, namespace string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.versions++
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":`+
		`{"name":"own","namespace":%q,"resourceVersion":"%d"},"data":{"a":%q}}}`+"\n",
		kind, namespace, q.versions, strings.Repeat("x", 1000))
}

func (q *quiet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query, namespace := r.URL.Query(), strings.Split(r.URL.Path, "/")[4]
	send := func(text string) { _, _ = io.WriteString(w, text) } // the client may disconnect
	if query.Get("sendInitialEvents") == "true" {
		q.mu.Lock()
		q.lists[namespace]++
		q.mu.Unlock()
		send(q.event("ADDED", namespace))
		send(bookmark(`"k8s.io/initial-events-end":"true"`))
	}
	w.(http.Flusher).Flush()
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")) // 0 ends the watch
	end := time.After(time.Duration(seconds) * time.Second)
	for {
		select {
		case <-time.After(time.Minute):
			count := 1
			if namespace == "busy" {
				count = busyUpdates
			}
			var text strings.Builder
			for range count {
				text.WriteString(q.event("MODIFIED", namespace))
			}
			send(text.String() + bookmark(""))
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		case <-end:
			return
		}
	}
}

// bookmark returns a bookmark as long as those of API servers.
func bookmark(annotations string) string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1",`+
		`"metadata":{"resourceVersion":"1234567","annotations":{%s}}}}`+"\n", annotations)
}

// TestWatchesOfADayAreListedAgain checks that 4 MiB of bookmarks and updates lead to another list
// without an error.
func TestWatchesOfADayAreListedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, want := &quiet{lists: map[string]int{}}, map[string]int{"busy": 28, "idle": 4}
		network := &pipes{connections: make(chan net.Conn), closed: make(chan struct{})}
		server := &httptest.Server{
			Listener: network, Config: &http.Server{Handler: q, ReadHeaderTimeout: time.Minute},
		}
		server.Start()
		defer server.Close()
		transport := &http.Transport{DialContext: network.dial}
		defer transport.CloseIdleConnections()
		config := &rest.Config{Host: "http://localhost", Transport: transport, QPS: -1}
		config.Wrap(guest.LimitResponses())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		logger := funcr.New(func(_, args string) {
			if ctx.Err() == nil { // the end of the test interrupts requests
				t.Error(args)
			}
		}, funcr.Options{})
		var running sync.WaitGroup
		for namespace := range want {
			informer := newInformer(t, config, namespace)
			running.Go(func() { informer.RunWithContext(klog.NewContext(ctx, logger)) })
		}
		<-time.After(24 * time.Hour)
		cancel()
		running.Wait()
		assert.Check(t, is.DeepEqual(want, q.lists), "lists")
	})
}

func newInformer(t *testing.T, config *rest.Config, namespace string) cache.SharedIndexInformer {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	assert.NilError(t, err)
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0,
		informers.WithNamespace(namespace),
		informers.WithTransform(guest.DropUnused),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=own"
		}))
	return factory.Core().V1().ConfigMaps().Informer()
}
