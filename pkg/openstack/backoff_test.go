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

func (s *fixture) advance(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

// wantDelays expects the client to retry the refused login after each delay, and not earlier.
func (s *fixture) wantDelays(client *openstack.Client, message string, delays ...time.Duration) {
	s.t.Helper()
	for _, delay := range delays {
		s.advance(delay - time.Nanosecond)
		assert.Assert(s.t, is.Equal(s.wantRefusal(client, 0), message))
		s.advance(time.Nanosecond)
		assert.Assert(s.t, is.Equal(s.wantRefusal(client, 1), message))
	}
}

// wantRefusal expects a call to fail after a number of logins, without other requests. It returns
// the message.
func (s *fixture) wantRefusal(client *openstack.Client, logins int) string {
	s.t.Helper()
	s.counters()
	message := s.wantFailure(client, openstack.AuthenticationFailed)
	requests := s.counters().Calls
	assert.Assert(s.t, requests[loginCall] == logins && len(requests) == logins, "got %v", requests)
	return message
}

// Clouds lock a user out after a number of refused logins.
func TestRefusedLoginBacksOff(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.client()
	s.refuse(simulator.Identity, 401)
	message := s.wantRefusal(client, 1)
	s.wantDelays(client, message, time.Minute, 2*time.Minute, 4*time.Minute, 8*time.Minute,
		15*time.Minute, 15*time.Minute)
	check(t, s.cloud.ClearFaults())
	s.advance(15 * time.Minute)
	s.wantTypes(client, "gold", "silver") // which resets the delay
	s.refuse(simulator.Identity, 401)
	s.cloud.RevokeTokens()
	s.wantDelays(client, s.wantFailure(client, openstack.AuthenticationFailed), time.Minute)
}

// A token ends while something else than Manila's own answer makes the client log in.
func TestRefusedRenewalBacksOff(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*fixture){
		"in a cloud without Manila": func(s *fixture) { s.cloud.RemoveFromCatalog("sharev2") },
		"when Manila fails":         func(s *fixture) { s.refuse(simulator.Share, 503) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{TokenTTL: time.Hour})
			prepare(s)
			client := s.client()
			_, err := client.ShareTypes(t.Context()) // with the catalog of the login
			assert.Check(t, err != nil, "the cloud listed share types")
			s.cloud.RotateCredentials(simulator.Rotation{})
			s.counters()
			_, err = client.ShareTypes(t.Context())
			assert.Check(t, err != nil, "the cloud listed share types")
			assert.Assert(t, is.Equal(s.counters().Calls[loginCall], 1))
			s.wantDelays(client, s.wantRefusal(client, 0), time.Minute, 2*time.Minute)
		})
	}
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
	message := s.wantRefusal(client, 1)
	for _, change := range []func(){
		func() { s.clouds(simulator.Clouds{NoRegion: true}) },
		func() { s.write("ca.crt", s.ca()+"# another\n") },
	} {
		change()
		s.wantRefusal(client, 0)
	}
	s.wantDelays(client, message, time.Minute)
	s.cloud.RotateCredentials(simulator.Rotation{})
	s.clouds(simulator.Clouds{})
	s.wantRefusal(client, 1)
	s.wantDelays(client, message, 4*time.Minute) // after the third refused login in a row
}
