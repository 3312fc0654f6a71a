package openstack_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// advance advances the clients' clock.
func (s *fixture) advance(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

// wantDelays expects the client to retry the refused login after each delay, and not earlier.
func (s *fixture) wantDelays(client *openstack.Client, message string, delays ...time.Duration) {
	s.t.Helper()
	for _, delay := range delays {
		for _, step := range []struct {
			pass  time.Duration
			calls map[string]int
		}{{delay - time.Nanosecond, map[string]int{}}, {time.Nanosecond, map[string]int{loginCall: 1}}} {
			s.advance(step.pass)
			assert.Assert(s.t, is.Equal(s.wantFailure(client, openstack.AuthenticationFailed), message))
			s.wantCalls(step.calls)
		}
	}
}

// Clouds lock a user out after a number of refused logins.
func TestRefusedLoginBacksOff(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.client()
	s.refuse(simulator.Identity, 401)
	message := s.wantFailure(client, openstack.AuthenticationFailed)
	s.wantCalls(map[string]int{loginCall: 1})
	s.wantDelays(client, message, time.Minute, 2*time.Minute, 4*time.Minute, 8*time.Minute,
		15*time.Minute, 15*time.Minute)
	check(t, s.cloud.ClearFaults())
	s.advance(15 * time.Minute)
	s.wantTypes(client, "gold", "silver") // which resets the delay
	s.refuse(simulator.Identity, 401)
	s.cloud.RevokeTokens()
	message = s.wantFailure(client, openstack.AuthenticationFailed)
	s.counters()
	s.wantDelays(client, message, time.Minute)
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
			func(s *fixture) { s.refuse(simulator.Share, 503) }, openstack.CloudUnreachable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{TokenTTL: time.Hour})
			test.prepare(s)
			client := s.client()
			check(t, client.Check(t.Context()))
			if test.first == openstack.AuthenticationFailed {
				s.wantFailure(client, openstack.NotOffered) // with the catalog of the login
			}
			s.cloud.RotateCredentials(simulator.Rotation{})
			s.counters()
			s.wantFailure(client, test.first)
			assert.Assert(t, is.Equal(s.counters().Calls[loginCall], 1))
			message := s.wantFailure(client, openstack.AuthenticationFailed)
			s.wantCalls(map[string]int{})
			s.wantDelays(client, message, time.Minute, 2*time.Minute)
		})
	}
}

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
			assert.Check(t, is.Equal(openstack.ReasonOf(err), openstack.AuthenticationFailed))
		})
	}
	group.Wait()
	assert.Check(t, is.Equal(s.counters().Calls[loginCall], 1))
}

func TestClientsShareTheBackoff(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
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
				assert.Check(t, is.Equal(openstack.ReasonOf(err), openstack.AuthenticationFailed))
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

func TestWaitForTheLoginOfAnotherClientEnds(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	s.fault(mode(simulator.Hang))
	backoff := openstack.NewBackoff(s.clock)
	client := openstack.NewClient(s.source(), backoff)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- client.Check(ctx) }()
	s.waitUntilOneHangs()
	waiting, end := context.WithCancel(t.Context())
	end()
	s.failure(0, openstack.NewClient(s.source(), backoff).Check(waiting), openstack.CloudUnreachable)
	cancel()
	s.failure(0, <-ended, openstack.CloudUnreachable)
	s.wantCalls(map[string]int{loginCall: 1})
}

// waitUntilOneHangs waits for a request that the cloud does not answer.
func (s *fixture) waitUntilOneHangs() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	_, err := s.cloud.WaitRequest(ctx, func(r simulator.Request) bool { return !r.Done })
	check(s.t, err)
}

// Only what Keystone's answer depends on is a reason to try at once.
func TestChangedCredentialsAreTriedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{TLS: true})
	s.write("ca.crt", s.ca())
	client := s.client()
	s.refuse(simulator.Identity, 401)
	message := s.wantFailure(client, openstack.AuthenticationFailed)
	s.counters()
	for _, change := range []func(){
		func() { s.replace("interface: public", "interface: internal") },
		func() { s.write("ca.crt", s.ca()+"# another\n") },
	} {
		change()
		s.wantFailure(client, openstack.AuthenticationFailed)
		s.wantCalls(map[string]int{})
	}
	s.wantDelays(client, message, time.Minute)
	s.replace("    password: ", "    password: another-")
	s.wantFailure(client, openstack.AuthenticationFailed)
	s.wantCalls(map[string]int{loginCall: 1})
	s.wantDelays(client, message, 4*time.Minute) // after the third refused login in a row
}

// A cloud that does not answer has refused nothing.
func TestLoginWithoutResponseDoesNotBackOff(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	s.refuse("", 503)
	client := s.client()
	for range 3 {
		s.wantFailure(client, openstack.CloudUnreachable)
		s.wantCalls(map[string]int{loginCall: 1})
	}
}
