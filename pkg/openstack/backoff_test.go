package openstack_test

import (
	"testing"
	"time"

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

// TestChangedCredentialsAreTriedAtOnce: any change of what is used is a reason to try at once.
func TestChangedCredentialsAreTriedAtOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fixture, *[]byte){
		"clouds.yaml": func(s *fixture, _ *[]byte) {
			s.replace("    interface: public\n",
				"    interface: internal\n")
		},
		"CA":          func(s *fixture, _ *[]byte) { s.write("ca.crt", s.ca()+"# another\n") },
		"trusted CAs": func(_ *fixture, trusted *[]byte) { *trusted = []byte("# another bundle") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{TLS: true})
			s.clouds(simulator.Clouds{})
			s.write("ca.crt", s.ca())
			var trusted []byte
			source := s.source()
			source.TrustedCAs = func() []byte { return trusted }
			client := s.clientOf(source)
			s.fault(simulator.Fault{Mode: simulator.Status, Status: 401, Service: simulator.Identity})
			message := s.wantFailure(client, openstack.AuthenticationFailed)
			s.counters()
			s.wantDelay(client, time.Minute, message)
			change(s, &trusted)
			s.wantFailure(client, openstack.AuthenticationFailed)
			s.wantCalls(map[string]int{loginCall: 1})
			s.wantDelay(client, time.Minute, message) // the new ones wait from the beginning
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
