package openstack_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/services"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestUnacceptedTokenCausesNewLogin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ttl time.Duration
		end func(*fixture)
	}{
		"revoked": {time.Hour, func(s *fixture) { s.cloud.RevokeTokens() }},
		"expired": {services.BriefTTL, func(s *fixture) {
			check(s.t, s.cloud.ExpireTokens(s.t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{TokenTTL: test.ttl})
			client := s.connected()
			for range 2 {
				test.end(s)
				s.wantTypes(client, "gold", "silver")
				s.wantCalls(map[string]int{loginCall: 1, typesCall: 2})
				s.unchanged(client)
			}
		})
	}
}

func TestRotatedCredentialsCauseNewLogin(t *testing.T) {
	t.Parallel()
	for _, auth := range []simulator.Auth{
		simulator.Password, simulator.ApplicationCredential,
		simulator.NamedApplicationCredential,
	} {
		t.Run(string(auth), func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			s.clouds(simulator.Clouds{Auth: auth})
			client := s.client()
			s.wantTypes(client, "gold", "silver")
			s.cloud.RotateCredentials(simulator.Rotation{})
			s.counters()
			stable(t, repetitions, func() string {
				return s.wantFailure(client, openstack.AuthenticationFailed)
			})
			s.wantCalls(map[string]int{typesCall: 1, loginCall: 1})
			s.clouds(simulator.Clouds{Auth: auth})
			s.wantTypes(client, "gold", "silver")
			s.wantCalls(map[string]int{loginCall: 1, typesCall: 1})
			s.unchanged(client)
		})
	}
}

// connectedWithoutManila returns a cloud without Manila, a client with a session, and the message
// of its first request.
func connectedWithoutManila(
	t *testing.T, config simulator.Config,
) (*fixture, *openstack.Client, string) {
	t.Helper()
	s := newFixture(t, config)
	s.cloud.RemoveFromCatalog("sharev2")
	s.clouds(simulator.Clouds{})
	client := s.client()
	message := s.wantFailure(client, openstack.NotOffered)
	s.wantCalls(map[string]int{loginCall: 1})
	return s, client, message
}

// Each call reads the catalog with one request until it contains Manila.
func TestMissingManilaIsDetectedWithoutLogin(t *testing.T) {
	t.Parallel()
	s, client, first := connectedWithoutManila(t, simulator.Config{})
	for range repetitions {
		assert.Assert(t, is.Equal(s.wantFailure(client, openstack.NotOffered), first),
			"the message was %q", first)
		s.wantCalls(map[string]int{catalogCall: 1})
	}
	s.cloud.RestoreToCatalog("sharev2")
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{catalogCall: 1, typesCall: 1})
	s.unchanged(client)
}

func TestCatalogOfNewLoginIsUsedByTheNextCall(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	s.cloud.RemoveFromCatalog("sharev2")
	s.unchanged(client) // Manila still responds
	s.cloud.RevokeTokens()
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{loginCall: 1, typesCall: 2})
	s.wantFailure(client, openstack.NotOffered)
	s.wantCalls(map[string]int{catalogCall: 1})
	s.cloud.RestoreToCatalog("sharev2")
	s.wantTypes(client, "gold", "silver")
}

func TestEmptyCatalogOffersNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	entries := []string{"identity", "sharev2", "compute", "volumev3"}
	for _, entry := range entries {
		s.cloud.RemoveFromCatalog(entry)
	}
	client := s.client()
	for range 3 {
		s.wantFailure(client, openstack.NotOffered)
	}
	for _, entry := range entries {
		s.cloud.RestoreToCatalog(entry)
	}
	s.wantTypes(client, "gold", "silver")
}

func TestRefusedCatalogDoesNotMeanNotOffered(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 404, 503} {
		s, client, _ := connectedWithoutManila(t, simulator.Config{})
		s.fault(simulator.Fault{
			Mode: simulator.Status, Status: status, Method: "GET",
			Service: simulator.Identity,
		})
		wantFragment(t, s.wantFailure(client, openstack.CloudUnreachable), "identity service")
		check(t, s.cloud.ClearFaults())
		s.wantFailure(client, openstack.NotOffered)
	}
}

func TestTokenRevokedWithoutManilaCausesNewLogin(t *testing.T) {
	t.Parallel()
	s, client, _ := connectedWithoutManila(t, simulator.Config{TokenTTL: time.Hour})
	s.cloud.RevokeTokens()
	s.counters()
	s.wantFailure(client, openstack.NotOffered)
	s.wantCalls(map[string]int{loginCall: 1, catalogCall: 2})
}

func TestEmptyListOfShareTypesIsNoError(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{ShareTypes: []simulator.ShareType{}})
	s.clouds(simulator.Clouds{})
	client := s.client()
	s.wantTypes(client)
	err := s.cloud.AddShareType(simulator.ShareType{Name: "late"})
	check(t, err)
	s.wantTypes(client, "late")
	check(t, s.cloud.RemoveShareType("late"))
	s.wantTypes(client)
}

// TestTenThousandShareTypesAreListed covers the size of the answer, which contains each type twice.
// The real services need hours to create so many.
func TestTenThousandShareTypesAreListed(t *testing.T) {
	t.Parallel()
	var config simulator.Config
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("share-type-with-a-long-name-%05d", i))
		config.ShareTypes = append(config.ShareTypes, simulator.ShareType{Name: names[i]})
	}
	s := newSimulated(t, config)
	s.clouds(simulator.Clouds{})
	s.wantTypes(s.client(), names...)
}

func TestConcurrentCallsShareOneLogin(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	client := s.client()
	const callers = 8
	type result struct {
		names []string
		err   error
	}
	results := make(chan result, callers)
	for range callers {
		go func() {
			types, err := client.ShareTypes(t.Context())
			results <- result{namesOf(types), err}
		}()
	}
	for range callers {
		got := <-results
		if diff := cmp.Diff([]string{"gold", "silver"}, got.names); got.err != nil || diff != "" {
			t.Errorf("error %v, share types (-want +got):\n%s", got.err, diff)
		}
	}
	s.wantCalls(map[string]int{loginCall: 1, typesCall: callers})
}

func TestCancelledContextEndsRunningAndWaitingCalls(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	client := s.connected()
	s.fault(simulator.Fault{Mode: simulator.Hang})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 2)
	ask := func() {
		_, err := client.ShareTypes(ctx)
		failed <- err
	}
	go ask()
	arrived, giveUp := context.WithTimeout(t.Context(), patience)
	defer giveUp()
	_, err := s.cloud.WaitRequest(arrived, func(r simulator.Request) bool { return !r.Done })
	check(t, err)
	go ask()
	cancel()
	for range 2 {
		select {
		case err := <-failed:
			wantFragment(t, s.failure(0, err, openstack.CloudUnreachable), "request cancelled")
		case <-time.After(patience):
			t.Fatal("the call does not end")
		}
	}
	check(t, s.cloud.ClearFaults())
	s.wantTypes(client, "gold", "silver")
}
