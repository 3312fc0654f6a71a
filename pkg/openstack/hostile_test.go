package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

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

// hostileAnswer is a response of a hostile server, and a part of the error if Manila returns it.
type hostileAnswer struct {
	simulator.Answer

	want string
}

func hostileAnswers() map[string]hostileAnswer {
	type answer = simulator.Answer
	const endless = -1
	const start, oneName = `{"share_types":[`, `{"share_types":[{"name":"`
	text := strings.Repeat("x", 64<<10)
	moved := func(status int, to string) answer { return *redirect("", status, to).Answer }
	return map[string]hostileAnswer{
		"endless text":    {answer{Start: oneName, Body: text, Size: endless}, tooLong},
		"endless types":   {answer{Start: start, Body: `{"name":"a","id":"1"},`, Size: endless}, tooLong},
		"endless nesting": {answer{Body: strings.Repeat("[", 1000), Size: endless}, ""},
		"endless error": {
			answer{Status: 500, Body: strings.Repeat("no ", 1000), Size: endless}, "returned HTTP 500",
		},
		"endless refusal": {
			answer{Status: 401, Body: strings.Repeat("no ", 1000), Size: endless}, "HTTP 401",
		},
		"gzip bomb": {answer{Gzip: true, Start: start + `"`, Body: text, Size: 1 << 30}, tooLong},
		"broken gzip": {
			answer{Header: map[string]string{"Content-Encoding": "gzip"}, Body: "not gzip"}, "",
		},
		"200000 types": {
			answer{Start: start, Body: `{"name":"a"},`, Size: 200_000 * 13, End: `{"name":"b"}]}`}, tooLong,
		},
		"huge number": {
			answer{Start: `{"share_types":`, Body: strings.Repeat("9", 1024), Size: 1 << 20, End: `}`}, "",
		},
		"huge header": {
			answer{Header: map[string]string{"X-Big": strings.Repeat("x", 400<<10)}, Body: start + `]}`}, "",
		},
		"redirect loop":    {moved(302, "?again"), redirected},
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
	}
}

func TestHostileAnswersCauseStableErrors(t *testing.T) {
	t.Parallel()
	for name, test := range hostileAnswers() {
		for _, service := range []simulator.Service{simulator.Share, simulator.Identity} {
			t.Run(fmt.Sprintf("%s of %s", name, service), func(t *testing.T) {
				t.Parallel()
				s := newSimulated(t, simulator.Config{})
				client, answer := s.client(), test.Answer
				if service == simulator.Share {
					s.wantTypes(client, "gold", "silver")
				} else {
					answer = asLogin(answer)
				}
				s.fault(foreign(service, answer))
				message := stable(t, 3, func() string { return s.hostile(client, answer.Pause > 0) })
				if service == simulator.Share {
					wantFragment(t, message, test.want)
				}
				check(t, s.cloud.ClearFaults())
				s.advance(time.Hour)
				s.wantTypes(client, "gold", "silver")
			})
		}
	}
}

// asLogin returns an answer that has the status and the header of a successful login.
func asLogin(answer simulator.Answer) simulator.Answer {
	if answer.Status == 0 {
		answer.Status = http.StatusCreated
	}
	header := map[string]string{"X-Subject-Token": "secret-token"}
	for name, value := range answer.Header {
		header[name] = value
	}
	answer.Header = header
	return answer
}

// hostile expects a request to fail for any reason, and returns the message.
func (s *fixture) hostile(client *openstack.Client, slow bool) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if slow {
		ctx = s.expiring(ctx, simulator.Foreign, brief)
	}
	types, err := client.ShareTypes(ctx)
	classified, ok := errors.AsType[*openstack.Error](err)
	assert.Assert(s.t, ok && (classified.Reason == openstack.CloudUnreachable ||
		classified.Reason == openstack.AuthenticationFailed), "got %d types and %v", len(types), err)
	text := s.failure(len(types), err, classified.Reason)
	wantPrintable(s.t, text)
	return text
}

// The test measures all allocations of the most expensive responses.
//
//nolint:paralleltest // other tests would allocate meanwhile
func TestHostileResponsesUseBoundedMemory(t *testing.T) {
	const most = 256 << 20 // all allocations, most of them at different times
	s := newSimulated(t, simulator.Config{})
	client := s.connected()
	for _, body := range []string{`{"a":{}},`, `[],`, `"",`} {
		s.fault(foreign(simulator.Share, simulator.Answer{
			Start: `{"share_types":[`, Body: strings.Repeat(body, 1000), Size: -1,
		}))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.hostile(client, false)
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		assert.Check(t, used <= most, "an answer of %s allocates %d MiB", body, used>>20)
		check(t, s.cloud.ClearFaults())
	}
}
