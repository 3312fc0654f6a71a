//go:build integration && long

package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// hijackedGroup is the API group that the administrator of the guest cluster forwards to a server.
const hijackedGroup = "/apis/storage.k8s.io/v1"

// hostileResponses returns handlers for requests of StorageClasses and CSIDrivers. pkg/guest tests
// the other kinds of responses.
func hostileResponses() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"endless lists": endless(
			`{"kind":"StorageClassList","metadata":{},"items":[`, `{"metadata":{"name":"c%d"}},`),
		"endless events": events,
	}
}

func body(contentType string, status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // the operator may disconnect
	}
}

// endless returns a handler that repeats a part with a number until the client disconnects.
func endless(start, part string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, start)
		for i := 0; err == nil; i++ {
			_, err = fmt.Fprintf(w, part, i)
		}
	}
}

// events sends a complete list, and then events without end.
func events(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		body("application/json", http.StatusOK, `{"metadata":{"resourceVersion":"1"},"items":[]}`)(w, r)
		return
	}
	kind := "StorageClass"
	if strings.HasSuffix(r.URL.Path, "csidrivers") {
		kind = "CSIDriver"
	}
	const event = `{"type":%q,"object":{"kind":%q,"apiVersion":"storage.k8s.io/v1",` +
		`"metadata":{%s}}}` + "\n"
	end := fmt.Sprintf(event, "BOOKMARK", kind,
		`"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}`)
	added := fmt.Sprintf(event, "ADDED", kind, `"name":"c%d","resourceVersion":"2"`)
	endless(end, added)(w, r)
}

// hijack forwards the API group to a server that responds only to the operator. It returns a
// function that changes the handler and waits for requests.
func (e *env) hijack() (respond func(http.HandlerFunc)) {
	e.t.Helper()
	var current atomic.Pointer[http.HandlerFunc]
	var requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			switch handler := current.Load(); {
			case r.URL.Path == hijackedGroup: // the API server checks whether the server is available
				body("application/json", http.StatusOK, `{"kind":"APIResourceList"}`)(w, r)
			case handler == nil || !strings.Contains(r.UserAgent(), e.subject.Program):
				http.Error(w, "", http.StatusServiceUnavailable)
			default:
				requests.Add(1)
				(*handler)(w, r)
			}
		}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	e.t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	e.must(err)
	e.forward(port)
	return func(handler http.HandlerFunc) {
		e.t.Helper()
		current.Store(&handler)
		first := requests.Load()
		e.eventually(2*installed, func() error {
			if got := requests.Load() - first; got < 4 {
				return fmt.Errorf("the operator sent %d requests, want 4", got)
			}
			return nil
		})
	}
}

// forward changes the APIService so that the API server forwards requests to a local port. The
// cleanup restores the APIService.
func (e *env) forward(port string) {
	e.t.Helper()
	number, err := strconv.Atoi(port)
	e.must(err)
	_, err = e.guest.kube.CoreV1().Services(metav1.NamespaceDefault).Create(e.ctx(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hijack"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	e.must(err)
	e.afterwards(e.restoreAPIService)
	e.must(e.patchAPIService(e.ctx(), fmt.Sprintf(
		`{"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"hijack","port":%d}}`,
		number)))
}

func (e *env) restoreAPIService(ctx context.Context) error {
	return e.patchAPIService(ctx, `{"service":null,"insecureSkipTLSVerify":null}`)
}

func (e *env) patchAPIService(ctx context.Context, spec string) error {
	services := e.guest.of(collection{resource("apiregistration.k8s.io", "apiservices"), ""})
	_, err := services.Patch(ctx, "v1.storage.k8s.io", types.MergePatchType,
		[]byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	return err
}

// survivesHijackedAPIGroup checks that a server behind an API group of the guest cluster cannot
// crash the operator or make it use much memory. The operator starts meanwhile.
func (e *hostedEnv) survivesHijackedAPIGroup() {
	e.stopOperator()
	respond := e.hijack()
	e.startOperator()
	pid := e.operator.PID()
	for name, handler := range hostileResponses() {
		e.sub(name, func(t *testing.T) {
			respond(handler)
			t.Logf("peak memory: %d MiB", e.peakMemory()>>20)
		})
	}
	if peak := e.peakMemory(); peak > 300<<20 {
		e.t.Errorf("peak memory is %d MiB", peak>>20)
	}
	assert.Check(e.t, e.operator.PID() == pid && e.operator.Running(),
		"the operator process ended during the test")
	e.must(e.restoreAPIService(e.ctx()))
	e.awaitAvailable()
}

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peakMemory returns the operator's peak resident memory in bytes.
func (e *env) peakMemory() int64 {
	e.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.operator.PID()))
	e.must(err)
	found := peakLine.FindSubmatch(status)
	assert.Assert(e.t, found != nil, "/proc does not contain the peak memory")
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	e.must(err)
	return kilobytes << 10
}
