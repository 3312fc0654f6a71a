package openstack_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

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

func faultyResponses() map[string]failure {
	const unreachable = openstack.CloudUnreachable
	return map[string]failure{
		"500": {status(500), unreachable, "returned HTTP 500. The cloud may be in maintenance"},
		"429": {status(429), unreachable, "returned HTTP 429: it limits the number of"},
		"413": {foreign("", simulator.Answer{
			Status: 413, Header: map[string]string{"Retry-After": "7"}, Body: "busy",
		}), unreachable, "returned HTTP 413: it limits the number of"},
		"413 of Cinder": {foreign("", simulator.Answer{
			Status: 413, Body: `{"overLimitFault":{"code":413}}`,
		}), unreachable, "returned HTTP 413: it limits the number of"},
		"400":           {status(400), unreachable, "returned HTTP 400, which"},
		"garbage":       {mode(simulator.Garbage), unreachable, notAnAPI},
		"truncated":     {mode(simulator.Truncated), unreachable, "closes the connection"},
		"hang":          {mode(simulator.Hang), unreachable, "no response in time"},
		"reset":         {mode(simulator.Reset), unreachable, "closes the connection"},
		"reset-connect": {mode(simulator.ResetConnect), unreachable, "closes the connection"},
		"refused":       {mode(simulator.Unreachable), unreachable, "connection is refused"},
	}
}

// attempt sends a request, expects it to fail, and returns the message.
func (s *fixture) attempt(client *openstack.Client, request listRequest, want failure) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	answer := want.fault.Answer
	if want.fault.Mode == simulator.Hang || answer != nil && answer.Pause > 0 {
		ctx = s.expiring(ctx, want.fault.Mode)
	}
	results, err := request.count(client, ctx)
	text := s.failure(results, err, want.reason)
	wantFragment(s.t, text, want.fragment)
	return text
}

// expiring returns a context whose deadline passes soon after a request meets a fault. With a
// deadline at a fixed time, a busy machine could reach it before it sends the request.
func (s *fixture) expiring(ctx context.Context, mode simulator.Mode) context.Context {
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
			time.AfterFunc(10*time.Millisecond, func() { expire(context.DeadlineExceeded) })
		}
	}()
	return ctx
}

// repeat repeats the request for share types and expects the same message each time.
func (s *fixture) repeat(client *openstack.Client, want failure) {
	s.t.Helper()
	stable(s.t, repetitions, func() string { return s.attempt(client, shareTypes(), want) })
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
	for _, code := range []int{200, 203, 204, 300, 304, 404, 405, 407} {
		tests[fmt.Sprintf("%d of another server", code)] = failure{
			answer(code, ""), unreachable, fmt.Sprintf("returned HTTP %d without content, which is no "+
				"answer of Keystone to a login. Check that auth_url is the URL of Keystone", code),
		}
	}
	tests["403 of another server"] = failure{
		answer(403, "<html>"), refused, "refused the login (HTTP 403 with a web page or XML), but the " +
			"answer is not of Keystone",
	}
	tests["400 of Keystone"] = failure{
		answer(400, `{"error":{"code":400,"title":"Bad Request","message":"secret-x"}}`), unreachable,
		"returned HTTP 400, which the operator does not expect. Check",
	}
	tests["no token"] = failure{answer(201, `{"token":{"project":{"id":"p"}}}`), unreachable, notAnAPI}
	for kind, fragment := range map[simulator.Certificate]string{
		simulator.WrongHost: "not valid for this host name", simulator.OtherCA: "unknown authority",
		simulator.Expired: "expired",
	} {
		fault := simulator.Fault{Mode: simulator.BadCertificate, Certificate: kind}
		tests[string(kind)] = failure{fault, unreachable, fragment}
	}
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

// Only Manila fails, then recovers. The session stays valid. Then Manila fails after a new login:
// gophercloud hides such errors in an error of another type.
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
			refusal := once(status(http.StatusUnauthorized))
			refusal.Service = simulator.Share
			s.fault(refusal)
			s.fault(test.fault)
			s.attempt(client, shareTypes(), test)
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

// wantPrintable expects a message that a condition can contain.
func wantPrintable(t *testing.T, message string) {
	t.Helper()
	assert.Check(t, len(message) <= 1000, "message has %d bytes: %.200s...", len(message), message)
	for _, r := range message {
		assert.Check(t, unicode.IsPrint(r), "message has the character %q: %q", r, message)
	}
}

const (
	tooLong    = "its response is larger than 8 MiB or contains more than 400000 values"
	notAnAPI   = "not from an OpenStack API"
	redirected = "it redirects the request to another server"
)

// The responses are of a hostile server; want is a part of the error if Manila returns one.
func TestHostileAnswersCauseStableErrors(t *testing.T) {
	t.Parallel()
	type answer = simulator.Answer
	const endless = -1
	const start, oneName = `{"share_types":[`, `{"share_types":[{"name":"`
	text := strings.Repeat("x", 64<<10)
	moved := func(status int, to string) answer { return *redirect("", status, to).Answer }
	for name, test := range map[string]struct {
		answer answer
		want   string
	}{
		"endless text":    {answer{Start: oneName, Body: text, Size: endless}, tooLong},
		"endless types":   {answer{Start: start, Body: `{"name":"a","id":"1"},`, Size: endless}, tooLong},
		"endless nesting": {answer{Body: strings.Repeat("[", 1000), Size: endless}, ""},
		"endless error":   {answer{Status: 500, Body: text, Size: endless}, "returned HTTP 500"},
		"endless refusal": {answer{Status: 401, Body: text, Size: endless}, "HTTP 401"},
		"gzip bomb":       {answer{Gzip: true, Start: start + `"`, Body: text, Size: 1 << 30}, tooLong},
		"broken gzip":     {answer{Header: map[string]string{"Content-Encoding": "gzip"}, Body: "x"}, ""},
		"200000 types": {
			answer{Start: start, Body: `{"name":"a"},`, Size: 200_000 * 13, End: `{"name":"b"}]}`}, tooLong,
		},
		"huge number": {
			answer{Start: `{"share_types":`, Body: strings.Repeat("9", 1024), Size: 1 << 20, End: `}`}, "",
		},
		"huge header": {
			answer{Header: map[string]string{"X-Big": strings.Repeat("x", 400<<10)}, Body: start + `]}`}, "",
		},
		"redirect loop":    {moved(302, "?again"), "it redirects the request again and again"},
		"to another host":  {moved(307, "http://169.254.169.254/latest"), redirected},
		"to a file":        {moved(302, "file:///etc/passwd"), redirected},
		"with userinfo":    {moved(302, "https://secret-u:secret-p@k.example/"), redirected},
		"control sequence": {answer{Status: 418, Body: "\x1b[31m\u202egarbage\x00"}, "returned HTTP 418"},
		"slow":             {answer{Body: " ", Size: endless, Pause: time.Millisecond}, "no response in"},
		"no JSON":          {answer{}, ""},
		"an empty object":  {answer{Body: `{}`}, notAnAPI},
		"a text":           {answer{Body: `"secret-x"`}, notAnAPI},
		"null":             {answer{Body: `null`}, notAnAPI},
		"a list":           {answer{Body: `[]`}, notAnAPI},
		"a catalog of another shape": {
			answer{Body: `{"token":{"project":{"id":"p"},"catalog":"secret-x"}}`}, notAnAPI,
		},
	} {
		for _, service := range []simulator.Service{simulator.Share, simulator.Identity} {
			t.Run(fmt.Sprintf("%s of %s", name, service), func(t *testing.T) {
				t.Parallel()
				s := newSimulated(t, simulator.Config{})
				client, answer, want := s.client(), test.answer, failure{reason: openstack.CloudUnreachable}
				if answer.Status == http.StatusUnauthorized {
					want.reason = openstack.AuthenticationFailed
				}
				if service == simulator.Share {
					s.wantTypes(client, "gold", "silver")
					want.fragment = test.want
				} else { // as for a successful login
					answer.Status = cmp.Or(answer.Status, http.StatusCreated)
					answer.Header = map[string]string{"X-Subject-Token": "secret-token"}
					maps.Copy(answer.Header, test.answer.Header)
				}
				want.fault = foreign(service, answer)
				s.fault(want.fault)
				stable(t, 3, func() string { return s.attempt(client, shareTypes(), want) })
				check(t, s.cloud.ClearFaults())
				s.advance(time.Hour)
				s.wantTypes(client, "gold", "silver")
			})
		}
	}
}
