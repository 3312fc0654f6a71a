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

// Client returns the simulator.
func (s *Simulator) Client() *Simulator { return s }

// CA returns the certificate of the private CA in PEM. It fails if the simulator serves plain HTTP.
func (s *Simulator) CA(context.Context) ([]byte, error) {
	if s.keyring == nil {
		return nil, errors.New("there is no CA: the simulator serves plain HTTP")
	}
	return s.keyring.ca, nil
}

// CloudsYAML returns a clouds.yaml with the credentials that Keystone accepts now.
func (s *Simulator) CloudsYAML(_ context.Context, options Clouds) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return options.render(s.info, s.credentials)
}

// ShareTypes returns all share types, in the order in which they were added.
func (s *Simulator) ShareTypes(context.Context) ([]ShareType, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.types), nil
}

// AddShareType creates a share type. It fails if there is one with the same name.
func (s *Simulator) AddShareType(_ context.Context, added ShareType) (ShareType, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.types, func(t ShareType) bool { return t.Name == added.Name }) {
		return ShareType{}, fmt.Errorf("share type %q exists already", added.Name)
	}
	s.types = append(s.types, added)
	return added, nil
}

// RemoveShareType deletes the share type of that name.
func (s *Simulator) RemoveShareType(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.types, func(t ShareType) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("share type %q does not exist", name)
	}
	s.types = slices.Delete(s.types, i, i+1)
	return nil
}

// SetShareTypeOrder changes the order in which share types are listed.
func (s *Simulator) SetShareTypeOrder(_ context.Context, order Order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = order
	return nil
}

// Zones returns the availability zones of Compute or Volume.
func (s *Simulator) Zones(_ context.Context, service Service) ([]Zone, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.zones[service]), nil
}

// SetZones replaces the availability zones of Compute or Volume.
func (s *Simulator) SetZones(_ context.Context, service Service, zones ...Zone) error {
	if service != Compute && service != Volume {
		return fmt.Errorf("service %q has no availability zones, want %s or %s", service, Compute,
			Volume)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zones[service] = zones
	return nil
}

// RemoveFromCatalog removes a service type, such as sharev2, from the catalog of tokens that are
// issued later. A client that holds a token keeps its catalog; RevokeTokens makes it log in again.
func (s *Simulator) RemoveFromCatalog(_ context.Context, serviceType string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[serviceType] = true
	return nil
}

// RestoreToCatalog undoes RemoveFromCatalog.
func (s *Simulator) RestoreToCatalog(_ context.Context, serviceType string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.removed, serviceType)
	return nil
}

// Credentials returns the credentials that Keystone accepts now.
func (s *Simulator) Credentials(context.Context) (Credentials, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credentials, nil
}

// RotateCredentials replaces the secrets of the password and of the application credential.
// Keystone refuses the old ones.
func (s *Simulator) RotateCredentials(_ context.Context, rotation Rotation) (Credentials, error) {
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
	return s.credentials, nil
}

// RevokeTokens revokes all tokens and returns the number of those that were valid.
func (s *Simulator) RevokeTokens(context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	valid, now := 0, s.config.Now()
	for _, expiry := range s.tokens {
		if now.Before(expiry) {
			valid++
		}
	}
	clear(s.tokens)
	return valid, nil
}

// Faults returns the active faults, in the order in which they were set.
func (s *Simulator) Faults(context.Context) ([]Fault, error) { return s.faults.list(), nil }

// SetFault activates a fault and returns it with its ID. It affects all later requests and
// connections.
func (s *Simulator) SetFault(ctx context.Context, fault Fault) (Fault, error) {
	fault, err := fault.withDefaults(s.config.TLS)
	if err != nil {
		return Fault{}, err
	}
	fault = s.faults.add(fault)
	return fault, s.adjust(ctx,
		func(f *frontend) bool { return fault.onConnections() && fault.affects(f.services...) })
}

// ClearFaults removes the faults with the given IDs, or all if none is given, and releases held
// requests. It closes connections that were opened with a bad certificate.
func (s *Simulator) ClearFaults(ctx context.Context, ids ...string) error {
	cleared, err := s.faults.clear(ids)
	if err != nil {
		return err
	}
	return s.adjust(ctx, func(f *frontend) bool {
		return slices.ContainsFunc(cleared, func(fault Fault) bool {
			return fault.Mode == BadCertificate && fault.affects(f.services...)
		})
	})
}

// adjust applies the faults to every listener, and closes the connections of those that drop
// selects.
func (s *Simulator) adjust(ctx context.Context, drop func(*frontend) bool) error {
	var errs []error
	for _, f := range s.frontends {
		errs = append(errs, f.adjust(ctx, drop(f)))
	}
	return errors.Join(errs...)
}

// Log returns the requests with a number above since, oldest first. With 0 it returns all that are
// kept.
func (s *Simulator) Log(_ context.Context, since int) ([]Request, error) {
	return s.journal.list(since), nil
}

// Counters returns the counters since the start or the last ResetLog.
func (s *Simulator) Counters(context.Context) (Counters, error) { return s.journal.count(), nil }

// ResetLog removes all requests from the log and resets the counters.
func (s *Simulator) ResetLog(context.Context) error {
	s.journal.reset()
	return nil
}

// WaitRequest waits until a request with a number above since matches, and returns it. The context
// bounds the wait.
func (s *Simulator) WaitRequest(
	ctx context.Context, since int, match func(Request) bool,
) (found Request, err error) {
	err = wait.PollUntilContextCancel(ctx, pollInterval, true,
		func(context.Context) (bool, error) {
			requests := s.journal.list(since)
			i := slices.IndexFunc(requests, match)
			if i >= 0 {
				found = requests[i]
			}
			return i >= 0, nil
		})
	if err != nil {
		return Request{}, fmt.Errorf("waiting for a matching request: %w", err)
	}
	return found, nil
}
