package openstack_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// brief bounds calls that are expected to hang.
const brief = 100 * time.Millisecond

// failure is what a fault of the cloud is to look like.
type failure struct {
	fault    simulator.Fault
	reason   openstack.Reason
	fragment string
}

func faultyAnswers() map[string]failure {
	const unreachable = openstack.CloudUnreachable
	return map[string]failure{
		"500":             {simulator.Fault{Mode: simulator.Status, Status: 500}, unreachable, "answers HTTP 500"},
		"503":             {simulator.Fault{Mode: simulator.Status, Status: 503}, unreachable, "answers HTTP 503"},
		"429":             {simulator.Fault{Mode: simulator.Status, Status: 429}, unreachable, "answers HTTP 429"},
		"400":             {simulator.Fault{Mode: simulator.Status, Status: 400}, unreachable, "answers HTTP 400"},
		"garbage":         {simulator.Fault{Mode: simulator.Garbage}, unreachable, "not that of an OpenStack API"},
		"truncated":       {simulator.Fault{Mode: simulator.Truncated}, unreachable, "closes the connection"},
		"hang":            {simulator.Fault{Mode: simulator.Hang}, unreachable, "no answer in time"},
		"slow":            {simulator.Fault{Mode: simulator.Slow, Delay: time.Hour}, unreachable, "no answer in time"},
		"reset":           {simulator.Fault{Mode: simulator.Reset}, unreachable, "closes the connection"},
		"reset-connect":   {simulator.Fault{Mode: simulator.ResetConnect}, unreachable, "closes the connection"},
		"refused":         {simulator.Fault{Mode: simulator.Unreachable}, unreachable, "connection is refused"},
		"wrong host":      {simulator.Fault{Mode: simulator.BadCertificate, Certificate: simulator.WrongHost}, unreachable, "not valid for this host name"},
		"other authority": {simulator.Fault{Mode: simulator.BadCertificate, Certificate: simulator.OtherCA}, unreachable, "unknown authority"},
		"expired":         {simulator.Fault{Mode: simulator.BadCertificate, Certificate: simulator.Expired}, unreachable, "expired"},
	}
}

// repeat asks again and again and wants the same message each time.
func (s *site) repeat(client *openstack.Client, want failure) {
	s.t.Helper()
	first := ""
	for range repetitions {
		limit := patience
		if want.fault.Mode == simulator.Hang || want.fault.Mode == simulator.Slow {
			limit = brief
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), limit)
		names, err := client.ShareTypes(ctx)
		cancel()
		text := s.failure(names, err, want.reason)
		if first == "" {
			first = text
		}
		if text != first {
			s.t.Fatalf("message changes from %q to %q", first, text)
		}
	}
	wantFragment(s.t, first, want.fragment)
}

// TestFaultsAtLogin breaks the whole cloud before the first login, then mends it.
func TestFaultsAtLogin(t *testing.T) {
	t.Parallel()
	tests := faultyAnswers()
	tests["401"] = failure{simulator.Fault{Mode: simulator.Status, Status: 401}, openstack.AuthenticationFailed, "refuses the login (HTTP 401)"}
	tests["403"] = failure{simulator.Fault{Mode: simulator.Status, Status: 403}, openstack.AuthenticationFailed, "refuses the login (HTTP 403)"}
	tests["404"] = failure{simulator.Fault{Mode: simulator.Status, Status: 404}, openstack.CloudUnreachable, "answers HTTP 404"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, simulator.Config{TLS: true})
			s.clouds(simulator.Clouds{})
			s.write("ca.crt", s.ca())
			s.fault(test.fault)
			client := s.client()
			s.repeat(client, test)
			if attempts := s.counters().LoginAttempts; attempts > repetitions {
				t.Errorf("%d login attempts in %d calls", attempts, repetitions)
			}
			check(t, s.cloud.ClearFaults(t.Context()))
			s.clock.SetTime(s.clock.Now().Add(time.Hour)) // refused logins back off
			s.wantTypes(client, "gold", "silver")
		})
	}
}

// TestFaultsOfManila breaks Manila alone under a session, then mends it. The session lives on.
func TestFaultsOfManila(t *testing.T) {
	t.Parallel()
	tests := faultyAnswers()
	for _, certificate := range []string{"wrong host", "other authority", "expired"} {
		delete(tests, certificate) // the catalog of a TLS cloud has no front here
	}
	tests["403"] = failure{simulator.Fault{Mode: simulator.Status, Status: 403}, openstack.NotOffered, "not open to this project"}
	tests["404"] = failure{simulator.Fault{Mode: simulator.Status, Status: 404}, openstack.NotOffered, "nothing is served there"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, simulator.Config{SeparatePorts: true})
			client := s.connected()
			test.fault.Service = simulator.Share
			s.fault(test.fault)
			s.repeat(client, test)
			check(t, s.cloud.ClearFaults(t.Context()))
			s.wantTypes(client, "gold", "silver")
			if logins := s.counters().LoginAttempts; logins != 0 {
				t.Errorf("%d logins for a fault of Manila", logins)
			}
			s.unchanged(client)
		})
	}
}

func TestTokenRefusedByManila(t *testing.T) {
	t.Parallel()
	s := newSite(t, simulator.Config{})
	client := s.connected()
	s.fault(simulator.Fault{Mode: simulator.Status, Status: http.StatusUnauthorized, Service: simulator.Share})
	s.repeat(client, failure{reason: openstack.AuthenticationFailed, fragment: "refuses the token (HTTP 401)"})
	check(t, s.cloud.ClearFaults(t.Context()))
	s.wantTypes(client, "gold", "silver")
}

// TestFaultAfterNewLogin: gophercloud wraps failures after its own login in a way of its own.
func TestFaultAfterNewLogin(t *testing.T) {
	t.Parallel()
	for name, test := range faultyAnswers() {
		if test.fault.Mode == simulator.ResetConnect || test.fault.Mode == simulator.Unreachable || test.fault.Mode == simulator.BadCertificate {
			continue // not about requests
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, simulator.Config{})
			client := s.connected()
			s.fault(simulator.Fault{Mode: simulator.Status, Status: http.StatusUnauthorized, Service: simulator.Share, Times: 1})
			test.fault.Service = simulator.Share
			s.fault(test.fault)
			limit := patience
			if test.fault.Mode == simulator.Hang || test.fault.Mode == simulator.Slow {
				limit = 3 * brief
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			names, err := client.ShareTypes(ctx)
			wantFragment(t, s.failure(names, err, test.reason), test.fragment)
			if logins := s.counters().Logins; logins != 1 {
				t.Errorf("%d logins, want 1", logins)
			}
		})
	}
}

// TestNewLoginFails: the token has ended and Keystone is out of order.
func TestNewLoginFails(t *testing.T) {
	t.Parallel()
	s := newSite(t, simulator.Config{})
	client := s.connected()
	_, err := s.cloud.RevokeTokens(t.Context())
	check(t, err)
	s.fault(simulator.Fault{Mode: simulator.Status, Status: 503, Service: simulator.Identity})
	s.repeat(client, failure{reason: openstack.CloudUnreachable, fragment: "identity service"})
	check(t, s.cloud.ClearFaults(t.Context()))
	s.wantTypes(client, "gold", "silver")
}

func TestSlowAnswerIsAnAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t, simulator.Config{})
	client := s.connected()
	s.fault(simulator.Fault{Mode: simulator.Slow, Delay: brief})
	s.wantTypes(client, "gold", "silver")
}

// TestConnectionsToDeadCloud: a cloud that resets every connection is not hammered, with a session or without.
func TestConnectionsToDeadCloud(t *testing.T) {
	t.Parallel()
	for _, mode := range []simulator.Mode{simulator.ResetConnect, simulator.Reset} {
		for _, connected := range []bool{false, true} {
			name := string(mode) + " at first"
			if connected {
				name = string(mode) + " under a session"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, simulator.Config{})
				s.clouds(simulator.Clouds{})
				client := s.client()
				if connected {
					s.wantTypes(client, "gold", "silver")
				}
				s.fault(simulator.Fault{Mode: mode})
				s.counters()
				for range 5 {
					s.wantFailure(client, openstack.CloudUnreachable)
					if connections := s.counters().Connections; connections == 0 || connections > 2 {
						t.Errorf("%d connections in one call, want 1 or 2", connections)
					}
				}
				check(t, s.cloud.ClearFaults(t.Context()))
			})
		}
	}
}

// TestStrangers logs in at things that are no OpenStack.
func TestStrangers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"empty object": func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusCreated, `{}`) },
		"list":         func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusCreated, `[]`) },
		"string":       func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusCreated, `"secret-x"`) },
		"null":         func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusCreated, `null`) },
		"token, no JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", "secret-x")
			w.WriteHeader(http.StatusCreated)
		},
		"catalog of another shape": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", "secret-x")
			writeJSON(w, http.StatusCreated, `{"token":{"catalog":"secret-x"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, simulator.Config{})
			stranger := httptest.NewServer(http.HandlerFunc(answer))
			t.Cleanup(stranger.Close)
			s.front = stranger.URL + "/v3"
			s.clouds(simulator.Clouds{})
			s.repeat(s.client(), failure{reason: openstack.CloudUnreachable})
		})
	}
}

// TestStrangersInPlaceOfManila answers the question about share types with something else.
func TestStrangersInPlaceOfManila(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty object": `{}`, "versions": `{"versions":[]}`, "list": `[]`, "number": `7`, "null": `null`,
		"types of another shape": `{"share_types":"secret-x"}`, "null types": `{"share_types":null}`, "broken": `{"share_types":[`,
		"a type of another shape": `{"share_types":[{"name":"gold"},{"name":["secret-x"]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, simulator.Config{})
			s.front = strangeManila(t, body)
			s.clouds(simulator.Clouds{})
			s.replace(`region_name: "RegionOne"`, `region_name: ""`)
			s.repeat(s.client(), failure{reason: openstack.CloudUnreachable, fragment: "Manila"})
		})
	}
}

// strangeManila is a cloud whose Manila gives that body for an answer.
func strangeManila(t *testing.T, body string) string {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		catalog := `[{"type":"sharev2","endpoints":[{"interface":"public","url":"` + server.URL + `/v2"}]}]`
		switch {
		case strings.HasSuffix(r.URL.Path, "/auth/tokens"):
			w.Header().Set("X-Subject-Token", "secret-token")
			writeJSON(w, http.StatusCreated, `{"token":{"catalog":`+catalog+`}}`)
		case strings.HasSuffix(r.URL.Path, "/auth/catalog"):
			writeJSON(w, http.StatusOK, `{"catalog":`+catalog+`}`)
		default:
			writeJSON(w, http.StatusOK, body)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v3"
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func TestWrongScheme(t *testing.T) {
	t.Parallel()
	s := newSite(t, simulator.Config{})
	s.front = strings.Replace(s.front, "http://", "https://", 1)
	s.clouds(simulator.Clouds{})
	s.repeat(s.client(), failure{reason: openstack.CloudUnreachable, fragment: "TLS handshake fails"})
}
