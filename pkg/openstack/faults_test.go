package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

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
		"500":           {status(500), unreachable, "returned HTTP 500. The cloud may be in maintenance"},
		"429":           {status(429), unreachable, "returned HTTP 429: it limits the number of"},
		"400":           {status(400), unreachable, "returned HTTP 400, which"},
		"garbage":       {mode(simulator.Garbage), unreachable, notAnAPI},
		"truncated":     {mode(simulator.Truncated), unreachable, "closes the connection"},
		"hang":          {mode(simulator.Hang), unreachable, "no response in time"},
		"reset":         {mode(simulator.Reset), unreachable, "closes the connection"},
		"reset-connect": {mode(simulator.ResetConnect), unreachable, "closes the connection"},
		"refused":       {mode(simulator.Unreachable), unreachable, "connection is refused"},
	}
}

// attempt sends a request that returns a number of results, expects it to fail, and returns the
// message.
func (s *fixture) attempt(want failure, request func(context.Context) (int, error)) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if want.fault.Mode == simulator.Hang {
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

// repeat repeats the request for share types and expects the same message each time.
func (s *fixture) repeat(client *openstack.Client, want failure) {
	s.t.Helper()
	stable(s.t, repetitions, func() string { return s.attempt(want, shareTypes().of(client)) })
}

// The whole cloud fails before the first login, then recovers.
func TestFailedLoginsAreClassified(t *testing.T) {
	t.Parallel()
	const unreachable, refused = openstack.CloudUnreachable, openstack.AuthenticationFailed
	answer := func(status int, body string) simulator.Fault {
		return foreign(simulator.Identity, simulator.Answer{Status: status, Body: body})
	}
	tests := faultyResponses()
	for _, code := range []int{401, 403, 404} {
		tests[fmt.Sprint(code)] = failure{
			status(code), refused, fmt.Sprintf("refused the login (HTTP %d)", code),
		}
	}
	for _, code := range []int{200, 203, 204, 300, 304, 405, 407} {
		tests[fmt.Sprintf("%d of another server", code)] = failure{
			answer(code, ""), unreachable,
			fmt.Sprintf("returned HTTP %d, which is no answer of Keystone to a login", code),
		}
	}
	tests["404 of another server"] = failure{
		answer(404, "<html>nothing here</html>"), unreachable, "returned HTTP 404, which is no " +
			"answer of Keystone to a login. Check that auth_url is the URL of Keystone",
	}
	tests["400 of Keystone"] = failure{
		answer(400, `{"error":{"code":400,"title":"Bad Request","message":"secret-x"}}`), unreachable,
		"returned HTTP 400, which the operator does not expect. Check",
	}
	tests["no token"] = failure{answer(201, `{"token":{"project":{"id":"p"}}}`), unreachable, notAnAPI}
	tests["wrong host"] = failure{
		certificate(simulator.WrongHost), unreachable, "not valid for this host name",
	}
	tests["other authority"] = failure{
		certificate(simulator.OtherCA), unreachable, "unknown authority",
	}
	tests["expired"] = failure{certificate(simulator.Expired), unreachable, "expired"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{TLS: true})
			s.write("ca.crt", s.ca())
			s.fault(test.fault)
			client := s.client()
			s.repeat(client, test)
			attempts := s.counters().LoginAttempts
			assert.Check(t, attempts <= repetitions, "%d attempts in %d calls", attempts, repetitions)
			check(t, s.cloud.ClearFaults())
			s.advance(time.Hour) // end of the back-off
			s.wantTypes(client, "gold", "silver")
		})
	}
}

// Only Manila fails, then recovers. The session stays valid.
func TestFailedManilaRequestsAreClassified(t *testing.T) {
	t.Parallel()
	tests := faultyResponses()
	tests["403"] = failure{status(403), openstack.NotOffered, "not open to this project"}
	tests["404"] = failure{status(404), openstack.NotOffered, "nothing is served there"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{SeparatePorts: true})
			client := s.connected()
			test.fault.Service = simulator.Share
			s.fault(test.fault)
			s.repeat(client, test)
			check(t, s.cloud.ClearFaults())
			s.wantTypes(client, "gold", "silver")
			assert.Check(t, is.Equal(s.counters().LoginAttempts, 0))
			s.unchanged(client)
		})
	}
}

// gophercloud wraps errors after a new login in an error type that hides them.
func TestFailureAfterNewLoginIsClassified(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"500", "garbage", "hang"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			client, test := s.connected(), faultyResponses()[name]
			refusal := once(status(http.StatusUnauthorized))
			refusal.Service, test.fault.Service = simulator.Share, simulator.Share
			s.fault(refusal)
			s.fault(test.fault)
			s.attempt(test, shareTypes().of(client))
			assert.Check(t, is.Equal(s.counters().Logins, 1))
		})
	}
}

// The limit holds with and without a session.
func TestUnreachableCloudGetsAtMostTwoConnectionsPerCall(t *testing.T) {
	t.Parallel()
	for _, mode := range []simulator.Mode{simulator.ResetConnect, simulator.Reset} {
		for _, connected := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, connected before: %t", mode, connected), func(t *testing.T) {
				t.Parallel()
				s := newSimulated(t, simulator.Config{})
				client := s.client()
				if connected {
					s.wantTypes(client, "gold", "silver")
				}
				s.fault(simulator.Fault{Mode: mode})
				s.counters()
				for range 5 {
					s.wantFailure(client, openstack.CloudUnreachable)
					n := s.counters().Connections
					assert.Check(t, n == 1 || n == 2, "%d connections in one call, want 1 or 2", n)
				}
			})
		}
	}
}

func TestHTTPSWithAnHTTPServerIsExplained(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	s.front = strings.Replace(s.front, "http://", "https://", 1)
	s.clouds(simulator.Clouds{})
	s.repeat(s.client(), failure{reason: openstack.CloudUnreachable, fragment: "TLS handshake fails"})
}
