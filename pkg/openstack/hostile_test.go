package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
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

// hostileResponses returns responses of a hostile server and a part of the error of each.
func hostileResponses() map[string]struct {
	simulator.Answer
	want string
} {
	type (
		response = simulator.Answer
		header   = map[string]string
	)
	const endless = -1
	const start, oneName = `{"share_types":[`, `{"share_types":[{"name":"`
	return map[string]struct {
		simulator.Answer
		want string
	}{
		"endless text": {
			response{Start: oneName, Body: strings.Repeat("x", 64<<10), Size: endless},
			tooLong,
		},
		"endless spaces": {response{Body: strings.Repeat(" ", 64<<10), Size: endless}, tooLong},
		"endless types": {
			response{Start: start, Body: `{"name":"a","id":"1"},`, Size: endless},
			tooLong,
		},
		"endless keys": {
			response{Start: `{"share_types":[{`, Body: `"a":{},`, Size: endless},
			tooLong,
		},
		"endless nesting": {response{Body: strings.Repeat("[", 1000), Size: endless}, ""},
		"endless error": {
			response{Status: 500, Body: strings.Repeat("no ", 1000), Size: endless},
			"returned HTTP 500",
		},
		"endless refusal": {
			response{Status: 401, Body: strings.Repeat("no ", 1000), Size: endless},
			"HTTP 401",
		},
		"gzip bomb": {response{
			Gzip: true, Start: `{"share_types":["`,
			Body: strings.Repeat("x", 64<<10), Size: 1 << 30,
		}, tooLong},
		"broken gzip": {response{Header: header{"Content-Encoding": "gzip"}, Body: "not gzip"}, ""},
		"200000 types": {response{
			Start: start, Body: `{"name":"a"},`, Size: 200_000 * 13,
			End: `{"name":"b"}]}`,
		}, tooLong},
		"10001 types": {response{
			Start: start, Body: `{"name":"a"},`, Size: 10_000 * 13,
			End: `{"name":"b"}]}`,
		}, "lists more than 10000 items"},
		"megabyte name": {response{
			Start: oneName, Body: strings.Repeat("n", 1024), Size: 1 << 20,
			End: `"}]}`,
		}, notAnAPI},
		"name of 256": {
			response{Start: oneName, Body: strings.Repeat("n", 256), End: `"}]}`},
			notAnAPI,
		},
		"no name": {response{Body: `{"share_types":[{"id":"x"}]}`}, notAnAPI},
		"huge number": {response{
			Start: `{"share_types":`, Body: strings.Repeat("9", 1024),
			Size: 1 << 20, End: `}`,
		}, ""},
		"huge header": {response{
			Header: header{"X-Big": strings.Repeat("x", 400<<10)},
			Body:   `{"share_types":[]}`,
		}, ""},
		"redirect loop": {response{Status: 302, Header: header{"Location": "?again"}}, redirected},
		"to another host": {response{
			Status: 307,
			Header: header{"Location": "http://169.254.169.254/latest"},
		}, redirected},
		"to a file": {
			response{Status: 302, Header: header{"Location": "file:///etc/passwd"}},
			redirected,
		},
		"to another port": {
			response{Status: 308, Header: header{"Location": "http://127.0.0.1:1/"}},
			redirected,
		},
		"with userinfo": {response{
			Status: 302,
			Header: header{"Location": "https://secret-u:secret-p@k.example/"},
		}, redirected},
		"control sequence": {
			response{Status: 418, Body: "\x1b[31m\u202egarbage\x00"},
			"returned HTTP 418",
		},
		"slow": {
			response{Body: " ", Size: endless, Pause: time.Millisecond},
			"no response in time",
		},
		"never more": {response{Start: "{", Body: " ", Pause: time.Hour}, "no response in time"},
	}
}

func TestHostileManilaCausesStableErrors(t *testing.T) {
	t.Parallel()
	for name, test := range hostileResponses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			client := s.connected()
			s.fault(foreign(simulator.Share, test.Answer))
			message := stable(t, 3, func() string { return s.hostile(client) })
			wantFragment(t, message, test.want)
			check(t, s.cloud.ClearFaults())
			s.wantTypes(client, "gold", "silver")
		})
	}
}

func TestHostileKeystoneCausesStableErrors(t *testing.T) {
	t.Parallel()
	for name, test := range hostileResponses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			s.clouds(simulator.Clouds{})
			client := s.client()
			if test.Status == 0 {
				test.Status = http.StatusCreated
			}
			if test.Header == nil {
				test.Header = map[string]string{}
			}
			test.Header["X-Subject-Token"] = "secret-token"
			s.fault(foreign(simulator.Identity, test.Answer))
			stable(t, 2, func() string { return s.hostile(client) })
			check(t, s.cloud.ClearFaults())
			s.advance(time.Hour)
			s.wantTypes(client, "gold", "silver")
		})
	}
}

// hostile expects a request to fail for any reason, and returns the message.
func (s *fixture) hostile(client *openstack.Client) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if strings.HasSuffix(s.t.Name(), "/slow") || strings.HasSuffix(s.t.Name(), "/never_more") {
		ctx = s.expiring(ctx, simulator.Foreign, brief)
	}
	names, err := client.ShareTypes(ctx)
	var classified *openstack.Error
	if !errors.As(err, &classified) {
		s.t.Fatalf("got %d types and %v, want an error", len(names), err)
	}
	if classified.Reason != openstack.CloudUnreachable &&
		classified.Reason != openstack.AuthenticationFailed {
		s.t.Errorf("reason %s: %v", classified.Reason, err)
	}
	text := s.failure(len(names), err, classified.Reason)
	wantPrintable(s.t, text)
	return text
}

// Neither token nor password is sent to the target of the redirect.
func TestRedirectToAnotherServerIsRefused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, service := range []simulator.Service{simulator.Identity, simulator.Share} {
			t.Run(fmt.Sprintf("%s %d", service, status), func(t *testing.T) {
				t.Parallel()
				var stolen atomic.Int32
				thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
					*http.Request,
				) {
					stolen.Add(1)
				}))
				t.Cleanup(thief.Close)
				s := newFixture(t, simulator.Config{})
				s.clouds(simulator.Clouds{})
				s.fault(foreign(service, simulator.Answer{
					Status: status, Header: map[string]string{"Location": thief.URL},
				}))
				wantFragment(t, s.refusedRedirect(s.client()),
					"it redirects the request to")
				assert.Check(t, stolen.Load() <= 0, "the request was sent to another server")
			})
		}
	}
}

func TestRedirectWithinTheServerIsFollowed(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	redirect := foreign(simulator.Share, simulator.Answer{
		Status: http.StatusMovedPermanently, Header: map[string]string{"Location": "/share/v2/types"},
	})
	redirect.Times = 1
	s.fault(redirect)
	s.wantTypes(client, "gold", "silver")
}

func TestLinksToFurtherPagesAreIgnored(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	s.fault(foreign(simulator.Share, simulator.Answer{
		Body: `{"share_types":[{"name":"gold"}],"share_types_links":[{"rel":"next","href":"` +
			s.info.Endpoints[simulator.Share] + `/types?marker=1"}]}`,
	}))
	s.wantTypes(client, "gold")
	s.wantCalls(map[string]int{typesCall: 1})
}

// A cloud could return pages without end, or have the token sent to another host.
func TestLinksInTheCatalogAreIgnored(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		elsewhere.Add(1)
	}))
	t.Cleanup(other.Close)
	s, client, _ := connectedWithoutManila(t, simulator.Config{})
	for _, next := range []string{s.front + "/auth/catalog", other.URL} {
		s.fault(simulator.Fault{
			Mode: simulator.Foreign, Service: simulator.Identity, Method: http.MethodGet, Times: 3,
			Answer: &simulator.Answer{Body: `{"catalog":[{"type":"image","endpoints":[]}],` +
				`"links":{"next":"` + next + `"}}`},
		})
		s.wantFailure(client, openstack.NotOffered)
		s.wantCalls(map[string]int{catalogCall: 1})
		check(t, s.cloud.ClearFaults())
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went to another host", n)
	}
}

func TestAnswerWithoutCatalogIsNoCatalog(t *testing.T) {
	t.Parallel()
	s, client, _ := connectedWithoutManila(t, simulator.Config{})
	for _, body := range []string{`{}`, `null`, `{"catalog":null}`, `{"catalog":{}}`, `[]`} {
		s.fault(simulator.Fault{
			Mode: simulator.Foreign, Service: simulator.Identity, Method: http.MethodGet, Times: 1,
			Answer: &simulator.Answer{Body: body},
		})
		wantFragment(t, s.wantFailure(client, openstack.CloudUnreachable), "identity service")
	}
}

func TestHostileZonesCauseStableErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		simulator.Answer
		want string
	}{
		"endless": {simulator.Answer{
			Start: `{"availabilityZoneInfo":[`, Body: `{"zoneName":"a"},`,
			Size: -1,
		}, tooLong},
		"1001": {simulator.Answer{
			Start: `{"availabilityZoneInfo":[`, Body: `{"zoneName":"a"},`,
			Size: 1000 * 17, End: `{"zoneName":"b"}]}`,
		}, "lists more than 1000 items"},
		"megabyte name": {simulator.Answer{
			Start: `{"availabilityZoneInfo":[{"zoneName":"`,
			Body:  strings.Repeat("n", 1024), Size: 1 << 20, End: `"}]}`,
		}, notAnAPI},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachZoneRequest(t, func(t *testing.T, q zoneRequest) {
				s := newFixture(t, simulator.Config{})
				client := s.connected()
				s.fault(foreign(q.service, test.Answer))
				s.wantZonesFailure(client, q, failure{reason: openstack.CloudUnreachable, fragment: test.want})
			})
		})
	}
}

// The test measures all allocations of the most expensive responses.
//
//nolint:paralleltest // other tests would allocate meanwhile
func TestHostileResponsesUseBoundedMemory(t *testing.T) {
	const most = 256 << 20 // all allocations, most of them at different times
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	for _, body := range []string{`{"a":{}},`, `[],`, `"",`} {
		s.fault(foreign(simulator.Share, simulator.Answer{
			Start: `{"share_types":[`, Body: strings.Repeat(body, 1000), Size: -1,
		}))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.hostile(client)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("an answer of %s allocates %d MiB", body, used>>20)
		}
		check(t, s.cloud.ClearFaults())
	}
}
