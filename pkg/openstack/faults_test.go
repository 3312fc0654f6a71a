package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// brief is how long a client waits for a response that comes too slowly.
const brief = 100 * time.Millisecond

// failure is a fault of the cloud and the expected error.
type failure struct {
	fault    simulator.Fault
	reason   openstack.Reason
	fragment string
}

func status(code int) simulator.Fault {
	return simulator.Fault{Mode: simulator.Status, Status: code}
}

func mode(mode simulator.Mode) simulator.Fault { return simulator.Fault{Mode: mode} }

// foreign returns the fault of a service that returns this response instead of its own.
func foreign(service simulator.Service, response simulator.Answer) simulator.Fault {
	return simulator.Fault{Mode: simulator.Foreign, Service: service, Answer: &response}
}

func certificate(kind simulator.Certificate) simulator.Fault {
	return simulator.Fault{Mode: simulator.BadCertificate, Certificate: kind}
}

func faultyResponses() map[string]failure {
	const unreachable = openstack.CloudUnreachable
	return map[string]failure{
		"500":       {status(500), unreachable, "returned HTTP 500. The cloud may be in maintenance"},
		"503":       {status(503), unreachable, "returned HTTP 503. The cloud may be in maintenance"},
		"429":       {status(429), unreachable, "returned HTTP 429: it limits the number of requests"},
		"400":       {status(400), unreachable, "returned HTTP 400, which"},
		"garbage":   {mode(simulator.Garbage), unreachable, "not from an OpenStack API"},
		"truncated": {mode(simulator.Truncated), unreachable, "closes the connection"},
		"hang":      {mode(simulator.Hang), unreachable, "no response in time"},
		"slow": {
			simulator.Fault{Mode: simulator.Slow, Delay: time.Hour},
			unreachable,
			"no response in time",
		},
		"reset":         {mode(simulator.Reset), unreachable, "closes the connection"},
		"reset-connect": {mode(simulator.ResetConnect), unreachable, "closes the connection"},
		"refused":       {mode(simulator.Unreachable), unreachable, "connection is refused"},
		"wrong host": {
			certificate(simulator.WrongHost), unreachable, "not valid for this host name",
		},
		"other authority": {certificate(simulator.OtherCA), unreachable, "unknown authority"},
		"expired":         {certificate(simulator.Expired), unreachable, "expired"},
	}
}

// faultyService returns the faults of one service, beside a Keystone that works. The service uses
// no TLS.
func faultyService() map[string]failure {
	tests := faultyResponses()
	for _, name := range []string{"wrong host", "other authority", "expired"} {
		delete(tests, name)
	}
	tests["403"] = failure{status(403), openstack.NotOffered, "not open to this project"}
	tests["404"] = failure{status(404), openstack.NotOffered, "nothing is served there"}
	return tests
}

// attempt sends a request that returns a number of results, expects it to fail, and returns the
// message.
func (s *fixture) attempt(
	want failure, request func(context.Context) (int, error),
) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if want.fault.Mode == simulator.Hang || want.fault.Mode == simulator.Slow {
		ctx = s.expiring(ctx, want.fault.Mode, 0)
	}
	results, err := request(ctx)
	text := s.failure(results, err, want.reason)
	wantFragment(s.t, text, want.fragment)
	return text
}

// expiring returns a context whose deadline passes some time after a request meets a fault. With a
// deadline at a fixed time, a busy machine could reach it before it sends the request.
func (s *fixture) expiring(
	ctx context.Context, mode simulator.Mode, after time.Duration,
) context.Context {
	last := 0
	for _, earlier := range s.cloud.Log() {
		last = earlier.Number
	}
	ctx, expire := context.WithCancelCause(ctx)
	go func() {
		_, err := s.cloud.WaitRequest(ctx, func(r simulator.Request) bool {
			return r.Number > last && slices.Contains(r.Faults, mode)
		})
		if err == nil { // otherwise the caller has ended the context
			time.AfterFunc(after, func() { expire(context.DeadlineExceeded) })
		}
	}()
	return ctx
}

// shareTypes returns the request for share types, for attempt.
func shareTypes(client *openstack.Client) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		names, err := client.ShareTypes(ctx)
		return len(names), err
	}
}

// repeat repeats the request for share types and expects the same message each time.
func (s *fixture) repeat(client *openstack.Client, want failure) {
	s.t.Helper()
	stable(s.t, repetitions, func() string { return s.attempt(want, shareTypes(client)) })
}

// The whole cloud fails before the first login, then recovers.
func TestFailedLoginsAreClassified(t *testing.T) {
	t.Parallel()
	tests := faultyResponses()
	tests["401"] = failure{status(401), openstack.AuthenticationFailed, "refused the login (HTTP 401)"}
	tests["403"] = failure{status(403), openstack.AuthenticationFailed, "refused the login (HTTP 403)"}
	tests["404"] = failure{status(404), openstack.AuthenticationFailed, "refused the login (HTTP 404)"}
	tests["404 of another server"] = failure{
		foreign(simulator.Identity, simulator.Answer{Status: 404, Body: "<html>nothing here</html>"}),
		openstack.CloudUnreachable, "returned HTTP 404, which is no answer of Keystone to a login. " +
			"Check that auth_url is the URL of Keystone",
	}
	for _, status := range []int{200, 203, 204, 300, 304, 405, 407, 418} {
		tests[fmt.Sprintf("%d of another server", status)] = failure{
			foreign(simulator.Identity, simulator.Answer{Status: status}), openstack.CloudUnreachable,
			fmt.Sprintf("returned HTTP %d, which is no answer of Keystone to a login", status),
		}
	}
	tests["400 of Keystone"] = failure{
		foreign(simulator.Identity, simulator.Answer{
			Status: 400, Body: `{"error":{"code":400,"title":"Bad Request","message":"secret-x"}}`,
		}),
		openstack.CloudUnreachable, "returned HTTP 400, which the operator does not expect. Check",
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{TLS: true})
			s.clouds(simulator.Clouds{})
			s.write("ca.crt", s.ca())
			s.fault(test.fault)
			client := s.client()
			s.repeat(client, test)
			if attempts := s.counters().LoginAttempts; attempts > repetitions {
				t.Errorf("%d login attempts in %d calls", attempts, repetitions)
			}
			check(t, s.cloud.ClearFaults())
			s.clock.SetTime(s.clock.Now().Add(time.Hour)) // end of the back-off
			s.wantTypes(client, "gold", "silver")
		})
	}
}

// Only Manila fails, then recovers. The session stays valid.
func TestFailedManilaRequestsAreClassified(t *testing.T) {
	t.Parallel()
	for name, test := range faultyService() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{SeparatePorts: true})
			client := s.connected()
			test.fault.Service = simulator.Share
			s.fault(test.fault)
			s.repeat(client, test)
			check(t, s.cloud.ClearFaults())
			s.wantTypes(client, "gold", "silver")
			if logins := s.counters().LoginAttempts; logins != 0 {
				t.Errorf("%d logins for a fault of Manila", logins)
			}
			s.unchanged(client)
		})
	}
}

func TestTokenRefusedByManilaIsAnAuthenticationFailure(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	s.fault(simulator.Fault{
		Mode: simulator.Status, Status: http.StatusUnauthorized,
		Service: simulator.Share,
	})
	s.repeat(client, failure{
		reason:   openstack.AuthenticationFailed,
		fragment: "refused the token (HTTP 401)",
	})
	check(t, s.cloud.ClearFaults())
	s.wantTypes(client, "gold", "silver")
}

// gophercloud wraps errors after a new login in an error type that hides them.
func TestFailureAfterNewLoginIsClassified(t *testing.T) {
	t.Parallel()
	for name, test := range faultyResponses() {
		if test.fault.Mode == simulator.ResetConnect || test.fault.Mode == simulator.Unreachable ||
			test.fault.Mode == simulator.BadCertificate {
			continue // these faults affect connections, not requests
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			client := s.connected()
			s.fault(simulator.Fault{
				Mode: simulator.Status, Status: http.StatusUnauthorized,
				Service: simulator.Share, Times: 1,
			})
			test.fault.Service = simulator.Share
			s.fault(test.fault)
			s.attempt(test, shareTypes(client))
			if logins := s.counters().Logins; logins != 1 {
				t.Errorf("%d logins, want 1", logins)
			}
		})
	}
}

// The token is revoked, and Keystone returns errors.
func TestFailedNewLoginIsClassified(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	s.cloud.RevokeTokens()
	s.fault(simulator.Fault{Mode: simulator.Status, Status: 503, Service: simulator.Identity})
	s.repeat(client, failure{reason: openstack.CloudUnreachable, fragment: "identity service"})
	check(t, s.cloud.ClearFaults())
	s.wantTypes(client, "gold", "silver")
}

func TestSlowResponseIsUsed(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	s.fault(simulator.Fault{Mode: simulator.Slow, Delay: brief})
	s.wantTypes(client, "gold", "silver")
}

// The limit holds with and without a session.
func TestUnreachableCloudGetsAtMostTwoConnectionsPerCall(t *testing.T) {
	t.Parallel()
	for _, mode := range []simulator.Mode{simulator.ResetConnect, simulator.Reset} {
		for _, connected := range []bool{false, true} {
			name := string(mode) + " at first"
			if connected {
				name = string(mode) + " under a session"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newFixture(t, simulator.Config{})
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
				check(t, s.cloud.ClearFaults())
			})
		}
	}
}

func TestLoginRejectsResponsesThatAreNotFromKeystone(t *testing.T) {
	t.Parallel()
	created := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusCreated, body) }
	}
	for name, handler := range map[string]http.HandlerFunc{
		"empty object": created(`{}`),
		"list":         created(`[]`),
		"string":       created(`"secret-x"`),
		"null":         created(`null`),
		"token, no JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", "secret-x")
			w.WriteHeader(http.StatusCreated)
		},
		"catalog of another shape": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", "secret-x")
			writeJSON(w, http.StatusCreated, `{"token":{"project":{"id":"p"},"catalog":"secret-x"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			stranger := httptest.NewServer(handler)
			t.Cleanup(stranger.Close)
			s.front = stranger.URL + "/v3"
			s.clouds(simulator.Clouds{})
			s.repeat(s.client(), failure{reason: openstack.CloudUnreachable})
		})
	}
}

func TestShareTypesRejectsResponsesThatAreNotFromManila(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty object": `{}`, "versions": `{"versions":[]}`, "list": `[]`, "number": `7`, "null": `null`,
		"types of another shape": `{"share_types":"secret-x"}`, "null types": `{"share_types":null}`,
		"broken":                  `{"share_types":[`,
		"a type of another shape": `{"share_types":[{"name":"gold"},{"name":["secret-x"]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			s.front = strangeService(t, "sharev2", body)
			s.clouds(simulator.Clouds{NoRegion: true})
			s.repeat(s.client(), failure{reason: openstack.CloudUnreachable, fragment: "Manila"})
		})
	}
}

// strangeService returns the URL of a cloud with Keystone and one service, which returns the body.
func strangeService(t *testing.T, entry, body string) string {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		catalog := fmt.Sprintf(`[{"type":%q,"endpoints":[{"interface":"public","url":"%s/api/v%d"}]}]`,
			entry, server.URL, map[string]int{"compute": 2, "sharev2": 2, "volumev3": 3}[entry])
		switch {
		case strings.HasSuffix(r.URL.Path, "/auth/tokens"):
			w.Header().Set("X-Subject-Token", "secret-token")
			writeJSON(w, http.StatusCreated, `{"token":{"project":{"id":"p"},"catalog":`+catalog+`}}`)
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

func TestHTTPSWithAnHTTPServerIsExplained(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.front = strings.Replace(s.front, "http://", "https://", 1)
	s.clouds(simulator.Clouds{})
	s.repeat(s.client(), failure{reason: openstack.CloudUnreachable, fragment: "TLS handshake fails"})
}
