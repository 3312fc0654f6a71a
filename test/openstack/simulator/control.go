package simulator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rpc"
)

// zoneList is the request that replaces the zones of a service.
type zoneList struct {
	Service Service
	Zones   []Zone
}

// controlHandler serves the control API. Client is its only caller and documents it.
func (s *Simulator) controlHandler() http.Handler {
	mux := http.NewServeMux()
	handleGet(mux, "info", func() (Info, error) { return s.info, nil })
	handleGet(mux, "ca", s.controlCA)
	handleGet(mux, "types", func() ([]ShareType, error) { return s.manila.all(), nil })
	handleGet(mux, "faults", func() ([]Fault, error) { return s.faults.list(), nil })
	handleGet(mux, "revoke-tokens", s.controlRevoke)
	handleGet(mux, "credentials", func() (Credentials, error) { return s.keystone.current(), nil })
	handleGet(mux, "catalog", func() ([]CatalogEntry, error) { return s.keystone.entries(), nil })
	handleGet(mux, "counters", func() (Counters, error) { return s.journal.count(), nil })

	handle(mux, "clouds",
		func(o Clouds) (string, error) { return o.render(s.info, s.keystone.current()) })
	handle(mux, "add-type", s.manila.add)
	handle(mux, "rotate", s.controlRotate)
	handle(mux, "zones", s.zones.of)
	handle(mux, "log", func(since int) ([]Request, error) { return s.journal.list(since), nil })
	rpc.Handle(mux, "set-fault", s.controlSetFault)
	rpc.Handle(mux, "clear-faults", s.controlClearFaults)

	handleSet(mux, "remove-type", s.manila.remove)
	handleSet(mux, "order-types", s.manila.setOrder)
	handleSet(mux, "token-ttl", s.controlTTL)
	handleSet(mux, "set-catalog",
		func(e CatalogEntry) error { return s.keystone.setRemoved(e.Type, e.Removed) })
	handleSet(mux, "set-zones",
		func(list zoneList) error { return s.zones.set(list.Service, list.Zones) })
	handleSet(mux, "reset-log", func(rpc.None) error { s.journal.reset(); return nil })
	return mux
}

func handle[In, Out any](mux *http.ServeMux, name string, call func(In) (Out, error)) {
	rpc.Handle(mux, name, func(_ context.Context, in In) (Out, error) { return call(in) })
}

func handleGet[Out any](mux *http.ServeMux, name string, call func() (Out, error)) {
	handle(mux, name, func(rpc.None) (Out, error) { return call() })
}

func handleSet[In any](mux *http.ServeMux, name string, call func(In) error) {
	handle(mux, name, func(in In) (rpc.None, error) { return rpc.None{}, call(in) })
}

func (s *Simulator) controlCA() ([]byte, error) {
	if s.keyring == nil {
		return nil, errors.New("there is no CA: the simulator serves plain HTTP")
	}
	return s.keyring.ca, nil
}

func (s *Simulator) controlSetFault(ctx context.Context, fault Fault) (Fault, error) {
	fault, err := fault.normalise(s.config.TLS)
	if err != nil {
		return Fault{}, err
	}
	fault = s.faults.add(fault)
	return fault, s.adjust(ctx,
		func(f *frontend) bool { return fault.connection() && f.serves(fault) })
}

// controlClearFaults closes connections that were opened with a bad certificate.
func (s *Simulator) controlClearFaults(ctx context.Context, ids []string) (rpc.None, error) {
	before := s.faults.list()
	if err := s.faults.clear(ids...); err != nil {
		return rpc.None{}, err
	}
	after := map[string]bool{}
	for _, fault := range s.faults.list() {
		after[fault.ID] = true
	}
	return rpc.None{}, s.adjust(ctx, func(f *frontend) bool {
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

func (s *Simulator) controlRevoke() (int, error) {
	count := s.keystone.revoke()
	s.journal.revoked(count)
	return count, nil
}

func (s *Simulator) controlTTL(ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("token life %s is not positive", ttl)
	}
	s.keystone.setTTL(ttl)
	return nil
}

func (s *Simulator) controlRotate(rotation Rotation) (Credentials, error) {
	credentials := s.keystone.rotate(rotation)
	if !rotation.KeepTokens {
		s.journal.revoked(s.keystone.revoke())
	}
	return credentials, nil
}
