package simulator

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"gotest.tools/v3/assert"
)

// effect is a fault and the error that it causes.
type effect struct {
	fault Fault
	want  func(error) bool
}

// check lists share types with the fault, and again without it.
func (e effect) check(
	ctx context.Context, t *testing.T, cloud *Simulator, service *gophercloud.ServiceClient,
) {
	t.Helper()
	set(t, cloud, e.fault)
	if _, err := typeNames(ctx, service); err == nil || !e.want(err) {
		t.Errorf("with the fault, listing share types gives %v", err)
	}
	must(t, cloud.ClearFaults())
	if _, err := typeNames(ctx, service); err != nil {
		t.Errorf("with the fault cleared, listing share types gives %v", err)
	}
}

func TestFaultsChangeResponses(t *testing.T) {
	t.Parallel()
	status := func(code int) func(error) bool {
		return func(err error) bool { return gophercloud.ResponseCodeIs(err, code) }
	}
	syntax := func(err error) bool {
		var bad *json.SyntaxError
		return errors.As(err, &bad) || errors.Is(err, io.ErrUnexpectedEOF) ||
			strings.Contains(err.Error(), "unmarshal")
	}
	tests := map[string]effect{
		"401": {Fault{Mode: Status, Status: 401}, status(401)},
		"503": {Fault{Mode: Status, Status: 503}, status(503)},
		"reset": {
			Fault{Mode: Reset}, func(err error) bool { return errors.Is(err, syscall.ECONNRESET) },
		},
		"garbage": {Fault{Mode: Garbage}, syntax},
		"truncated": {
			Fault{Mode: Truncated}, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) },
		},
		"foreign": {
			Fault{Mode: Foreign, Answer: &Answer{
				Start: `{"share_types":"`, Body: "x", Size: 100_000, End: `"}`, Gzip: true,
			}}, syntax,
		},
		"foreign status": {
			Fault{Mode: Foreign, Answer: &Answer{
				Status: 418, Header: map[string]string{"X-A": "b"}, Body: "x", Pause: time.Millisecond,
			}}, status(418),
		},
	}
	for name, test := range tests {
		for _, tls := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " with TLS"}[tls], func(t *testing.T) {
				t.Parallel()
				cloud, ctx := run(t, Config{ShareTypes: named("a", "b"), TLS: tls})
				service := manilaClient(ctx, t, cloud)
				service.ReauthFunc = nil
				test.fault.Service = Share
				test.check(ctx, t, cloud, service)
				if _, _, err := login(ctx, t, cloud, Clouds{}); err != nil {
					t.Errorf("identity had no fault: %v", err)
				}
			})
		}
	}
}

func TestFaultsOfIdentityService(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault Fault
		ok    bool
	}{
		"status":                     {Fault{Mode: Status, Status: 503}, false},
		"truncated":                  {Fault{Mode: Truncated}, false},
		"other path, same service":   {Fault{Mode: Reset, PathPrefix: "/identity/v3/users"}, true},
		"other method, same service": {Fault{Mode: Reset, Method: "get"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud, ctx := run(t, Config{})
			test.fault.Service = Identity
			set(t, cloud, test.fault)
			if _, _, err := login(ctx, t, cloud, Clouds{}); (err == nil) != test.ok {
				t.Errorf("logging in gives %v", err)
			}
			got := cloud.Counters()
			if got.LoginAttempts != 1 || (got.Logins == 1) != (test.ok || test.fault.Mode == Truncated) {
				t.Errorf("%d login attempts, %d logins", got.LoginAttempts, got.Logins)
			}
		})
	}
}

func TestHangingRequestsEndWithFault(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("a")})
	service := manilaClient(ctx, t, cloud)
	fault := set(t, cloud, Fault{Mode: Hang, Service: Share, Times: 2})
	released := make(chan error, 1)
	go func() { _, err := typeNames(ctx, service); released <- err }()
	hanging, err := cloud.WaitRequest(ctx, func(r Request) bool { return r.Service == Share })
	must(t, err)
	assert.Check(t, !hanging.Done && hanging.Status == 0,
		"a request that hangs is logged as %+v", hanging)

	leaving, leave := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { _, err := typeNames(leaving, service); left <- err }()
	_, err = cloud.WaitRequest(ctx, func(r Request) bool {
		return r.Number > hanging.Number && len(r.Faults) == 1
	})
	must(t, err)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that gave up got %v", err)
	}
	gone, err := cloud.WaitRequest(ctx,
		func(r Request) bool { return r.Number > hanging.Number && r.Done })
	must(t, err)
	assert.Check(t, gone.Status == 0, "a client that gave up was answered %d", gone.Status)

	if _, err := typeNames(ctx, service); err != nil {
		t.Errorf("a third request met a fault for two: %v", err)
	}
	must(t, cloud.ClearFaults(fault.ID))
	assert.Check(t, <-released, "the released request got")
}

func TestSlowResponsesArrive(t *testing.T) {
	t.Parallel()
	const delay = 150 * time.Millisecond
	cloud, ctx := run(t, Config{ShareTypes: named("a")})
	service := manilaClient(ctx, t, cloud)
	set(t, cloud, Fault{Mode: Slow, Delay: delay, PathPrefix: "/share/v2/types"})
	set(t, cloud, Fault{Mode: Status, Status: 500, Times: 1})
	start := time.Now()
	_, err := typeNames(ctx, service)
	assert.Check(t, gophercloud.ResponseCodeIs(err, http.StatusInternalServerError),
		"got %v, want the second fault's 500", err)
	if took := time.Since(start); took < delay {
		t.Errorf("answered after %s, want at least %s", took, delay)
	}
	must(t, cloud.ClearFaults())
	set(t, cloud, Fault{Mode: Slow, Delay: time.Hour})
	released := make(chan error, 1)
	go func() { _, err := typeNames(ctx, service); released <- err }()
	_, err = cloud.WaitRequest(ctx, func(r Request) bool { return len(r.Faults) == 1 && !r.Done })
	must(t, err)
	must(t, cloud.ClearFaults())
	assert.Check(t, <-released, "the released request got")
}

func TestServerErrorsNeverReadTheSame(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	service := manilaClient(ctx, t, cloud)
	set(t, cloud, Fault{Mode: Status, Status: 502})
	_, first := typeNames(ctx, service)
	_, second := typeNames(ctx, service)
	assert.Check(t, first.Error() != second.Error(), "both read %q", first)
}

func TestFaultsBreakConnections(t *testing.T) {
	t.Parallel()
	tests := map[string]effect{
		"reset-connect": {Fault{Mode: ResetConnect}, func(err error) bool {
			return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		}},
		"unreachable": {
			Fault{Mode: Unreachable}, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) },
		},
		"wrong host": {Fault{Mode: BadCertificate}, func(err error) bool {
			return errors.As(err, new(x509.HostnameError))
		}},
		"other CA": {Fault{Mode: BadCertificate, Certificate: OtherCA}, func(err error) bool {
			return errors.As(err, new(x509.UnknownAuthorityError))
		}},
		"expired": {Fault{Mode: BadCertificate, Certificate: Expired}, func(err error) bool {
			var invalid x509.CertificateInvalidError
			return errors.As(err, &invalid) && invalid.Reason == x509.Expired
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud, ctx := run(t, Config{ShareTypes: named("a"), TLS: true})
			service := manilaClient(ctx, t, cloud)
			for range 2 { // the port must survive going away, and open connections must not hide the fault
				test.check(ctx, t, cloud, service)
			}
		})
	}
}

func TestConnectionFaultOfOneService(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{ResetConnect, Unreachable, BadCertificate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			cloud, ctx := run(t, Config{ShareTypes: named("a"), TLS: true, SeparatePorts: true})
			set(t, cloud, Fault{Mode: mode, Service: Share})
			service := manilaClient(ctx, t, cloud)
			if _, err := typeNames(ctx, service); err == nil {
				t.Error("Manila answered")
			}
			if got := cloud.Counters().Logins; got != 1 {
				t.Errorf("%d logins, want 1", got)
			}
		})
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("a")})
	service := manilaClient(ctx, t, cloud)
	for range 3 {
		_, err := typeNames(ctx, service)
		must(t, err)
	}
	if got := cloud.Counters().Connections; got != 1 {
		t.Errorf("%d connections for one client, want 1", got)
	}
	fault := set(t, cloud, Fault{Mode: ResetConnect, Times: 1})
	_, err := typeNames(ctx, service)
	assert.Check(t, err != nil, "the connection was not reset")
	_, err = typeNames(ctx, service)
	must(t, err)
	if got := cloud.Counters().Connections; got != 3 {
		t.Errorf("%d connections, want 3: before, reset, after %s was used up", got, fault.ID)
	}
}
