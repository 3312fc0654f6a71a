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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	configv1 "github.com/openshift/api/config/v1"
)

// apiServer has leases, and nothing else that the host might ask for.
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
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/ns/leases"):
		s.serveLease(w, r)
	case r.URL.Path == "/apis/config.openshift.io/v1/infrastructures/cluster" && s.infrastructure != "":
		_, _ = w.Write([]byte(s.infrastructure))
	default:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
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

// options are of a process at this API server, quick to take and to lose its lease.
func (s *apiServer) options() Options {
	config := &rest.Config{Host: s.url, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	o := Options{Name: "test", Namespace: "ns", Config: config, Clock: clock.RealClock{}}
	o.Operator.LeaderElection = configv1.LeaderElection{
		LeaseDuration: metav1.Duration{Duration: 2 * time.Second},
		RenewDeadline: metav1.Duration{Duration: time.Second},
		RetryPeriod:   metav1.Duration{Duration: 50 * time.Millisecond},
	}
	o.Operator.ServingInfo.BindAddress = "127.0.0.1:0"
	o.Operator.Authentication.Disabled = true
	return o
}
