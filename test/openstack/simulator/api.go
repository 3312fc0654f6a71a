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
	text, err := options.render(s.info, s.keystone.current())
	return []byte(text), err
}

// ShareTypes returns all share types, in the order of a listing.
func (s *Simulator) ShareTypes(context.Context) ([]ShareType, error) { return s.manila.all(), nil }

// AddShareType creates a share type. It fails if there is one with the same name.
func (s *Simulator) AddShareType(_ context.Context, shareType ShareType) (ShareType, error) {
	return s.manila.add(shareType)
}

// RemoveShareType deletes the share type of that name.
func (s *Simulator) RemoveShareType(_ context.Context, name string) error {
	return s.manila.remove(name)
}

// SetShareTypeOrder changes the order in which share types are listed.
func (s *Simulator) SetShareTypeOrder(_ context.Context, order Order) error {
	return s.manila.setOrder(order)
}

// Faults returns the active faults, with the number of their hits.
func (s *Simulator) Faults(context.Context) ([]Fault, error) { return s.faults.list(), nil }

// SetFault activates a fault and returns it with its ID. It affects all later requests and
// connections.
func (s *Simulator) SetFault(ctx context.Context, fault Fault) (Fault, error) {
	fault, err := fault.normalise(s.config.TLS)
	if err != nil {
		return Fault{}, err
	}
	fault = s.faults.add(fault)
	return fault, s.adjust(ctx,
		func(f *frontend) bool { return fault.connection() && f.serves(fault) })
}

// ClearFaults removes the faults with the given IDs, or all if none is given, and releases held
// requests. It closes connections that were opened with a bad certificate.
func (s *Simulator) ClearFaults(ctx context.Context, ids ...string) error {
	before := s.faults.list()
	if err := s.faults.clear(ids...); err != nil {
		return err
	}
	after := map[string]bool{}
	for _, fault := range s.faults.list() {
		after[fault.ID] = true
	}
	return s.adjust(ctx, func(f *frontend) bool {
		for _, fault := range before {
			if fault.Mode == BadCertificate && !after[fault.ID] && f.serves(fault) {
				return true
			}
		}
		return false
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

// RevokeTokens revokes all tokens and returns their number.
func (s *Simulator) RevokeTokens(context.Context) (int, error) {
	count := s.keystone.revoke()
	s.journal.revoked(count)
	return count, nil
}

// SetTokenTTL changes the lifetime of tokens that are issued later.
func (s *Simulator) SetTokenTTL(_ context.Context, ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("token life %s is not positive", ttl)
	}
	s.keystone.setTTL(ttl)
	return nil
}

// Credentials returns the credentials that Keystone accepts now.
func (s *Simulator) Credentials(context.Context) (Credentials, error) {
	return s.keystone.current(), nil
}

// RotateCredentials replaces the secrets of the password and of the application credential.
// Keystone refuses the old ones.
func (s *Simulator) RotateCredentials(_ context.Context, rotation Rotation) (Credentials, error) {
	credentials := s.keystone.rotate(rotation)
	if !rotation.KeepTokens {
		s.journal.revoked(s.keystone.revoke())
	}
	return credentials, nil
}

// Catalog returns the entries of the service catalog, including removed ones.
func (s *Simulator) Catalog(context.Context) ([]CatalogEntry, error) {
	return s.keystone.entries(), nil
}

// RemoveFromCatalog removes a service type, such as sharev2, from the catalog of tokens that are
// issued later. A client that holds a token keeps its catalog; RevokeTokens makes it log in again.
func (s *Simulator) RemoveFromCatalog(_ context.Context, serviceType string) error {
	return s.keystone.setRemoved(serviceType, true)
}

// RestoreToCatalog undoes RemoveFromCatalog.
func (s *Simulator) RestoreToCatalog(_ context.Context, serviceType string) error {
	return s.keystone.setRemoved(serviceType, false)
}

// Zones returns the availability zones of Compute or Volume.
func (s *Simulator) Zones(_ context.Context, service Service) ([]Zone, error) {
	return s.zones.of(service)
}

// SetZones replaces the availability zones of Compute or Volume.
func (s *Simulator) SetZones(_ context.Context, service Service, zones ...Zone) error {
	return s.zones.set(service, zones)
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
