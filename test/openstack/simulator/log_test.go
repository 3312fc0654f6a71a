package simulator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestLogContainsRequests(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("a")})
	service := manilaClient(ctx, t, cloud)
	_, err := typeNames(ctx, service)
	must(t, err)
	got := cloud.Log()
	want := []Request{
		{
			Number: 1, Service: Identity, Region: DefaultRegion, Method: "POST",
			Path: "/identity/v3/auth/tokens", Status: 201, Done: true, Connection: 1,
		},
		{
			Number: 2, Service: Share, Region: DefaultRegion, Method: "GET", Path: "/share/v2/types",
			Status: 200, Done: true, Connection: 1,
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Request{}, "Time")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	wantCounters := Counters{
		Connections: 1, Requests: map[Service]int{Identity: 1, Share: 1},
		Calls:         map[string]int{"POST /identity/v3/auth/tokens": 1, "GET /share/v2/types": 1},
		LoginAttempts: 1, Logins: 1,
	}
	if diff := cmp.Diff(wantCounters, cloud.Counters()); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	cloud.ResetLog()
	empty := cloud.Log()
	if total := cloud.Counters().Total(); len(empty) != 0 || total != 0 {
		t.Errorf("after a reset: %d requests in the log, %d counted", len(empty), total)
	}
}

func TestLogHoldsNoSecret(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	provider, _, err := login(ctx, t, cloud, Clouds{})
	must(t, err)
	_, _, err = login(ctx, t, cloud, Clouds{Auth: ApplicationCredential})
	must(t, err)
	accepted := cloud.Credentials()
	requests := cloud.Log()
	text, err := json.Marshal([]any{requests, cloud.Counters()})
	must(t, err)
	for _, secret := range []string{
		accepted.Password, accepted.ApplicationCredentialSecret, provider.TokenID,
	} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

// TestSimulatorIsSafeForConcurrentUse is for the race detector: clients, control and faults at the
// same time.
func TestSimulatorIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("a"), TLS: true, SeparatePorts: true})
	done := make(chan error)
	for i := range 4 {
		service := manilaClient(ctx, t, cloud)
		go func() {
			for range 10 {
				_, _ = typeNames(ctx, service) // may meet a fault of the others
			}
			done <- cloud.AddShareType(ShareType{Name: fmt.Sprint("type", i)})
		}()
		go func() {
			for _, mode := range []Mode{Unreachable, Reset, ResetConnect, BadCertificate, Truncated} {
				fault, err := cloud.SetFault(Fault{Mode: mode, Service: Share})
				if err == nil {
					err = cloud.ClearFaults(fault.ID)
				}
				if err != nil {
					done <- err
					return
				}
			}
			cloud.RevokeTokens()
			done <- nil
		}()
	}
	for range 8 {
		must(t, <-done)
	}
	names, err := typeNames(ctx, manilaClient(ctx, t, cloud))
	must(t, err)
	if len(names) != 5 {
		t.Errorf("%d share types, want 5", len(names))
	}
}
