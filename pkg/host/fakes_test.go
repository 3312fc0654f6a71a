package host

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
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

// apiServer has leases and takes events. It has nothing else that the host might ask for, unless the test gives it.
type apiServer struct {
	url string

	mu    sync.Mutex
	lease *coordinationv1.Lease
	// down has every write refused.
	down bool
	// log is what happened, in order.
	log []string
	// infrastructure is the body of Infrastructure/cluster, "" if there is none.
	infrastructure string
	// requests are what it was asked, as "METHOD path", without leases.
	requests []string
	// events are what it was sent.
	events []corev1.Event
	// others answers what the server has not itself; nil is that there is nothing.
	others http.Handler
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
	return append([]string(nil), s.log...)
}

func (s *apiServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// bounded is a context that ends before the test binary is shot.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// holder returns who holds the lease.
func (s *apiServer) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return ""
	}
	return ptr.Deref(s.lease.Spec.HolderIdentity, "")
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
	case r.URL.Path == "/apis/config.openshift.io/v1/infrastructures/cluster" && s.infrastructure != "":
		_, _ = w.Write([]byte(s.infrastructure))
	case s.others != nil:
		s.mu.Unlock() // a watch lasts
		defer s.mu.Lock()
		s.others.ServeHTTP(w, r)
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

// asked returns the requests, without those for leases.
func (s *apiServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// eventsOfTheWork returns the events it was sent but those of leader election, which are about a lease.
func (s *apiServer) eventsOfTheWork() (events []corev1.Event) {
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
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
	})
}

// config reaches the server.
func (s *apiServer) config() *rest.Config {
	return &rest.Config{Host: s.url, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// options are of a process at this API server, quick to take and to lose its lease.
func (s *apiServer) options() Options {
	config := s.config()
	o := Options{Name: "test", Namespace: "ns", Config: config, Served: config, EventNamespace: "ns", Clock: clock.RealClock{}}
	o.Operator.LeaderElection = configv1.LeaderElection{
		LeaseDuration: metav1.Duration{Duration: 2 * time.Second},
		RenewDeadline: metav1.Duration{Duration: time.Second},
		RetryPeriod:   metav1.Duration{Duration: 50 * time.Millisecond},
	}
	o.Operator.ServingInfo.BindAddress = "127.0.0.1:0"
	o.Operator.Authentication.Disabled = true
	return o
}
