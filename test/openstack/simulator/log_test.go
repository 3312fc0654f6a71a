package simulator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

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
		assert.Check(t, !strings.Contains(string(text), secret), "%q is in the log", secret)
	}
}

// TestSimulatorIsSafeForConcurrentUse is for the race detector: of clients, control and faults.
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
	assert.Check(t, len(names) == 5, "%d share types, want 5", len(names))
}

func TestIssuedTokensIncludeRevokedOnes(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	var want []string
	for range 2 {
		provider, _, err := login(ctx, t, cloud, Clouds{})
		must(t, err)
		want = append(want, provider.Token())
		cloud.RevokeTokens()
	}
	assert.Check(t, is.DeepEqual(want, cloud.IssuedTokens()), "tokens")
}
