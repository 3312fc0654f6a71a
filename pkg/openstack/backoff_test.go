package openstack_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// advance advances the clients' clock.
func (s *fixture) advance(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

// wantDelay expects the client to retry the refused login after the delay, and not earlier.
func (s *fixture) wantDelay(client *openstack.Client, wait time.Duration, message string) {
	s.t.Helper()
	for _, step := range []struct {
		pass  time.Duration
		calls map[string]int
	}{{wait - time.Nanosecond, map[string]int{}}, {time.Nanosecond, map[string]int{loginCall: 1}}} {
		s.advance(step.pass)
		if got := s.wantFailure(client, openstack.AuthenticationFailed); got != message {
			s.t.Fatalf("message changes from %q to %q", message, got)
		}
		s.wantCalls(step.calls)
	}
}

// Clouds lock a user out after a number of refused logins.
func TestRefusedLoginBacksOff(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"401": 401, "403": 403} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			s.clouds(simulator.Clouds{})
			s.fault(simulator.Fault{Mode: simulator.Status, Status: status, Service: simulator.Identity})
			client := s.client()
			message := s.wantFailure(client, openstack.AuthenticationFailed)
			s.wantCalls(map[string]int{loginCall: 1})
			for _, wait := range []time.Duration{
				time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute,
				15 * time.Minute,
			} {
				s.wantDelay(client, wait, message)
			}
			check(t, s.cloud.ClearFaults())
			s.advance(15 * time.Minute)
			s.wantTypes(client, "gold", "silver")

			// A successful login resets the delay.
			check(t, s.cloud.ClearFaults())
			s.fault(simulator.Fault{Mode: simulator.Status, Status: status, Service: simulator.Identity})
			s.cloud.RevokeTokens()
			message = s.wantFailure(client, openstack.AuthenticationFailed)
			s.counters()
			s.wantDelay(client, time.Minute, message)
		})
	}
}

// A token ends while something else than Manila's own answer makes the client log in.
func TestRefusedRenewalBacksOff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*fixture)
		first   openstack.Reason
	}{
		"in a cloud without Manila": {
			func(s *fixture) { s.cloud.RemoveFromCatalog("sharev2") }, openstack.AuthenticationFailed,
		},
		"when Manila fails": {
			func(s *fixture) {
				s.fault(simulator.Fault{Mode: simulator.Status, Status: 503, Service: simulator.Share})
			},
			openstack.CloudUnreachable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{TokenTTL: time.Hour})
			test.prepare(s)
			s.clouds(simulator.Clouds{})
			client := s.client()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			check(t, client.Check(ctx))
			if test.first == openstack.AuthenticationFailed {
				s.wantFailure(client, openstack.NotOffered) // with the catalog of the login
			}
			s.cloud.RotateCredentials(simulator.Rotation{})
			s.counters()
			s.wantFailure(client, test.first)
			if n := s.counters().Calls[loginCall]; n != 1 {
				t.Fatalf("%d logins, want 1", n)
			}
			message := s.wantFailure(client, openstack.AuthenticationFailed)
			s.wantCalls(map[string]int{})
			s.wantDelay(client, time.Minute, message)
			s.wantDelay(client, 2*time.Minute, message)
		})
	}
}

// Requests that run at the same time send one login with credentials that are refused.
func TestConcurrentRequestsSendOneRefusedLogin(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
	s.cloud.RotateCredentials(simulator.Rotation{})
	s.counters()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, _, err := requests.Find(t.Context(), shareID)
			assert.Check(t, openstack.ReasonOf(err) == openstack.AuthenticationFailed,
				"got %v, want a refused login", err)
		})
	}
	group.Wait()
	if n := s.counters().Calls[loginCall]; n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
}

// Clients that share the back-off send one login with credentials that are refused, also if they
// start at the same time.
func TestClientsShareTheBackoff(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	s.cloud.RotateCredentials(simulator.Rotation{})
	backoff, clients := openstack.NewBackoff(s.clock), []*openstack.Client{}
	for range 10 {
		clients = append(clients, openstack.NewClient(s.source(), backoff))
	}
	for _, wait := range []time.Duration{0, time.Minute, 2 * time.Minute} {
		s.advance(wait)
		var group sync.WaitGroup
		for _, client := range clients {
			group.Go(func() {
				err := client.Check(t.Context())
				assert.Check(t, openstack.ReasonOf(err) == openstack.AuthenticationFailed,
					"got %v, want a refused login", err)
			})
		}
		group.Wait()
		s.wantCalls(map[string]int{loginCall: 1})
	}
	s.clouds(simulator.Clouds{})
	for _, client := range clients {
		check(t, client.Check(t.Context()))
	}
}

// A client that waits for the login of another one ends with its context.
func TestWaitForTheLoginOfAnotherClientEnds(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	s.fault(simulator.Fault{Mode: simulator.Hang})
	backoff := openstack.NewBackoff(s.clock)
	client := openstack.NewClient(s.source(), backoff)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- client.Check(ctx) }()
	arrived, giveUp := context.WithTimeout(t.Context(), patience)
	defer giveUp()
	_, err := s.cloud.WaitRequest(arrived, func(r simulator.Request) bool { return !r.Done })
	check(t, err)
	waiting, end := context.WithCancel(t.Context())
	end()
	s.failure(0, openstack.NewClient(s.source(), backoff).Check(waiting), openstack.CloudUnreachable)
	cancel()
	s.failure(0, <-ended, openstack.CloudUnreachable)
	s.wantCalls(map[string]int{loginCall: 1})
}

// Only what Keystone's answer depends on is a reason to try at once.
func TestChangedCredentialsAreTriedAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*fixture)
		logins map[string]int
	}{
		"password": {
			func(s *fixture) { s.replace("    password: ", "    password: another-") },
			map[string]int{loginCall: 1},
		},
		"interface": {
			func(s *fixture) { s.replace("interface: public", "interface: internal") }, map[string]int{},
		},
		"CA": {func(s *fixture) { s.write("ca.crt", s.ca()+"# another\n") }, map[string]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{TLS: true})
			s.clouds(simulator.Clouds{})
			s.write("ca.crt", s.ca())
			client := s.client()
			s.fault(simulator.Fault{Mode: simulator.Status, Status: 401, Service: simulator.Identity})
			message := s.wantFailure(client, openstack.AuthenticationFailed)
			s.counters()
			s.wantDelay(client, time.Minute, message)
			test.change(s)
			s.wantFailure(client, openstack.AuthenticationFailed)
			s.wantCalls(test.logins)
			if len(test.logins) > 0 { // the third refused login in a row
				s.wantDelay(client, 4*time.Minute, message)
			}
		})
	}
}

// TestLoginWithoutResponseDoesNotBackOff: a cloud that does not answer has refused nothing.
func TestLoginWithoutResponseDoesNotBackOff(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	s.fault(simulator.Fault{Mode: simulator.Status, Status: 503})
	client := s.client()
	for range 3 {
		s.wantFailure(client, openstack.CloudUnreachable)
		s.wantCalls(map[string]int{loginCall: 1})
	}
}
