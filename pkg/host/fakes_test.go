package host

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	configv1 "github.com/openshift/api/config/v1"
)

// apiServer stores a Lease and records events. It returns 404 for other objects unless the test
// adds them.
type apiServer struct {
	url string

	mu    sync.Mutex
	lease *coordinationv1.Lease
	// down makes every request for the Lease fail.
	down bool
	// log contains what happened, in order.
	log []string
	// infrastructure is Infrastructure/cluster in JSON, "" if there is none.
	infrastructure string
	// requests contains the requests except for Leases, as "METHOD path".
	requests []string
	// events contains the received events.
	events []corev1.Event
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *apiServer) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, what)
}

func (s *apiServer) notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// bounded returns a context that ends before the time limit of the test binary.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/ns/leases") {
		s.serveLease(w, r)
		return
	}
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
		s.serveEvent(w, r)
	case r.URL.Path == "/apis/config.openshift.io/v1/infrastructures/cluster" &&
		s.infrastructure != "":
		_, _ = w.Write([]byte(s.infrastructure))
	default:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

func (s *apiServer) serveEvent(w http.ResponseWriter, r *http.Request) {
	var event corev1.Event
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	s.events = append(s.events, event)
	_ = json.NewEncoder(w).Encode(event)
}

// received returns the requests except for Leases.
func (s *apiServer) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// eventsOfWork returns the events except for events about the Lease.
func (s *apiServer) eventsOfWork() (events []corev1.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range s.events {
		if event.InvolvedObject.Kind != "Lease" {
			events = append(events, event)
		}
	}
	return events
}

func (s *apiServer) serveLease(w http.ResponseWriter, r *http.Request) {
	if s.down {
		fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	}
	if r.Method == http.MethodGet {
		if s.lease == nil {
			fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(s.lease)
		return
	}
	var lease coordinationv1.Lease
	if err := json.NewDecoder(r.Body).Decode(&lease); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	version := 0
	if s.lease != nil {
		if lease.ResourceVersion != s.lease.ResourceVersion {
			fail(w, http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		version, _ = strconv.Atoi(s.lease.ResourceVersion)
	}
	lease.ResourceVersion = strconv.Itoa(version + 1)
	was := s.lease
	s.lease = &lease
	switch holder := ptr.Deref(lease.Spec.HolderIdentity, ""); {
	case holder == "":
		s.log = append(s.log, "lease released")
	case was == nil || ptr.Deref(was.Spec.HolderIdentity, "") != holder:
		s.log = append(s.log, "lease taken")
	}
	_ = json.NewEncoder(w).Encode(s.lease)
}

func fail(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason,
	})
}

// config returns a client configuration for the server.
func (s *apiServer) config() *rest.Config {
	return &rest.Config{
		Host:          s.url,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return wholeUpdates{next} },
	}
}

// wholeUpdates waits for the response to an update although its context is done. Otherwise, the
// server could receive the last renewal of a Lease after its release.
type wholeUpdates struct{ http.RoundTripper }

func (u wholeUpdates) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	return u.RoundTripper.RoundTrip(r)
}

// options returns options with a short interval between renewals of the Lease.
func (s *apiServer) options() Options {
	config := s.config()
	o := Options{
		Name: "test", Namespace: "ns", Config: config, Served: config, EventNamespace: "ns",
		Clock: clock.RealClock{}, Monitoring: "openshift-monitoring",
	}
	o.Operator.LeaderElection = configv1.LeaderElection{
		LeaseDuration: metav1.Duration{Duration: 40 * time.Second},
		RenewDeadline: metav1.Duration{Duration: 30 * time.Second},
		RetryPeriod:   metav1.Duration{Duration: 50 * time.Millisecond},
	}
	o.Operator.ServingInfo.BindAddress = "127.0.0.1:0"
	o.Operator.Authentication.Disabled = true
	return o
}

// infrastructure returns Infrastructure/cluster in JSON.
func infrastructure(topology configv1.TopologyMode) string {
	return `{"kind": "Infrastructure", "apiVersion": "config.openshift.io/v1",
		"metadata": {"name": "cluster"}, "status": {"controlPlaneTopology": "` + string(topology) + `"}}`
}
