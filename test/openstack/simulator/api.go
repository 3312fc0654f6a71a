package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// This file contains the methods with which tests read and change the cloud while it runs. They are
// safe for concurrent use.

// pollInterval is the interval at which WaitRequest reads the log.
const pollInterval = 10 * time.Millisecond

// CA returns the certificate of the private CA in PEM, or nil if the simulator serves plain HTTP.
func (s *Simulator) CA() []byte {
	if s.keyring == nil {
		return nil
	}
	return s.keyring.ca
}

// CloudsYAML returns a clouds.yaml with the credentials that Keystone accepts now.
func (s *Simulator) CloudsYAML(options Clouds) []byte {
	return options.render(s.info, s.Credentials())
}

// Zones returns the availability zones of Compute, Volume or Share.
func (s *Simulator) Zones(service Service) []Zone {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.zones[service] == nil && service == Share {
		service = Compute
	}
	return slices.Clone(s.zones[service])
}

// SetZones replaces the availability zones of Compute, Volume or Share.
func (s *Simulator) SetZones(service Service, zones ...Zone) error {
	if service == Identity {
		return fmt.Errorf("service %q has no availability zones, want %s, %s or %s", service, Compute,
			Volume, Share)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zones[service] = zones
	return nil
}

// RemoveFromCatalog removes a service type, such as sharev2, from the catalog of tokens that are
// issued later. A client that holds a token keeps its catalog; RevokeTokens makes it log in again.
func (s *Simulator) RemoveFromCatalog(serviceType string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[serviceType] = true
}

// RestoreToCatalog undoes RemoveFromCatalog.
func (s *Simulator) RestoreToCatalog(serviceType string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.removed, serviceType)
}

// Credentials returns the credentials that Keystone accepts now.
func (s *Simulator) Credentials() Credentials {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credentials
}

// RotateCredentials replaces the secrets of the password and of the application credential.
// Keystone refuses the old ones.
func (s *Simulator) RotateCredentials(rotation Rotation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rotated := s.credentials
	rotated.Password = rotation.Password
	rotated.ApplicationCredentialID = rotation.ApplicationCredentialID
	rotated.ApplicationCredentialSecret = rotation.ApplicationCredentialSecret
	rotated.ApplicationCredentialExpiry = rotation.ApplicationCredentialExpiry
	s.credentials = rotated.withDefaults()
	if !rotation.KeepTokens {
		clear(s.tokens)
	}
}

// IssuedTokens returns the IDs of all tokens, including those that are expired or revoked.
func (s *Simulator) IssuedTokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.issued)
}

// RevokeTokens revokes all tokens and returns the number of those that were valid.
func (s *Simulator) RevokeTokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	valid, now := 0, time.Now()
	for _, expiry := range s.tokens {
		if now.Before(expiry) {
			valid++
		}
	}
	clear(s.tokens)
	return valid
}

// ExpireTokens ends the lifetime of all tokens.
func (s *Simulator) ExpireTokens(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.tokens {
		s.tokens[id] = time.Now()
	}
	return nil
}

// Faults returns the active faults, in the order in which they were set.
func (s *Simulator) Faults() []Fault { return s.faults.list() }

// SetFault activates a fault for all later requests and connections, and returns it with its ID.
func (s *Simulator) SetFault(fault Fault) (Fault, error) {
	fault, err := fault.withDefaults(s.config.TLS)
	if err != nil {
		return Fault{}, err
	}
	fault = s.faults.add(fault)
	return fault, s.adjust(
		func(f *frontend) bool { return fault.onConnections() && fault.affects(f.services...) })
}

// ClearFaults removes the faults with the given IDs, or all if none is given, and releases held
// requests. It closes connections that were opened with a bad certificate.
func (s *Simulator) ClearFaults(ids ...string) error {
	cleared, err := s.faults.clear(ids)
	if err != nil {
		return err
	}
	return s.adjust(func(f *frontend) bool {
		return slices.ContainsFunc(cleared, func(fault Fault) bool {
			return fault.Mode == BadCertificate && fault.affects(f.services...)
		})
	})
}

// SilenceConnections lets all open connections stay open without an answer, as behind a load
// balancer that has lost their state. New connections work.
func (s *Simulator) SilenceConnections() {
	for _, f := range s.frontends {
		for _, conn := range f.opened() {
			conn.silent.Store(true)
		}
	}
}

// adjust applies the faults to every listener, and closes the connections that drop selects.
func (s *Simulator) adjust(drop func(*frontend) bool) error {
	var errs []error
	for _, f := range s.frontends {
		errs = append(errs, f.adjust(drop(f)))
	}
	return errors.Join(errs...)
}

// Log returns the last requests, oldest first.
func (s *Simulator) Log() []Request { return s.journal.list() }

// Counters returns the counters since the start or the last ResetLog.
func (s *Simulator) Counters() Counters { return s.journal.count() }

// ResetLog removes all requests from the log and resets the counters.
func (s *Simulator) ResetLog() { s.journal.reset() }

// WaitRequest waits until a request matches, and returns it. The context bounds the wait.
func (s *Simulator) WaitRequest(
	ctx context.Context, match func(Request) bool,
) (found Request, err error) {
	err = wait.PollUntilContextCancel(ctx, pollInterval, true,
		func(context.Context) (bool, error) {
			requests := s.Log()
			i := slices.IndexFunc(requests, match)
			if i >= 0 {
				found = requests[i]
			}
			return i >= 0, nil
		})
	if err != nil {
		return Request{}, fmt.Errorf("waiting for a request: %w", err)
	}
	return found, nil
}
