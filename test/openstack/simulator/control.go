package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const controlPrefix = "/_control"

// The bodies of control requests that have no type of their own.
type (
	controlOrder   struct{ Order Order }
	controlTTL     struct{ TTL time.Duration }
	controlCount   struct{ Count int }
	controlFailure struct{ Error string }
)

// controlHandler serves the control API. Client is its only caller and documents it.
func (s *Simulator) controlHandler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { control(w, r, answer) })
	}
	const p = controlPrefix
	handle("GET "+p+"/info", func(*http.Request) (any, error) { return s.info, nil })
	handle("GET "+p+"/ca", s.controlCA)
	handle("GET "+p+"/clouds", s.controlClouds)

	handle("GET "+p+"/types", func(*http.Request) (any, error) { return s.manila.all(), nil })
	handle("POST "+p+"/types", s.controlAddType)
	handle("DELETE "+p+"/types", func(r *http.Request) (any, error) { return nil, s.manila.remove(r.FormValue("name")) })
	handle("PUT "+p+"/types/order", s.controlOrder)

	handle("GET "+p+"/faults", func(*http.Request) (any, error) { return s.faults.list(), nil })
	handle("POST "+p+"/faults", s.controlSetFault)
	handle("DELETE "+p+"/faults", s.controlClearFaults)

	handle("POST "+p+"/tokens/revoke", s.controlRevoke)
	handle("PUT "+p+"/tokens/ttl", s.controlTTL)
	handle("GET "+p+"/credentials", func(*http.Request) (any, error) { return s.keystone.current(), nil })
	handle("POST "+p+"/credentials", s.controlRotate)

	handle("GET "+p+"/catalog", func(*http.Request) (any, error) { return s.keystone.entries(), nil })
	handle("PUT "+p+"/catalog", s.controlCatalog)
	handle("GET "+p+"/zones/{service}", func(r *http.Request) (any, error) {
		return s.zones.of(Service(r.PathValue("service")))
	})
	handle("PUT "+p+"/zones/{service}", s.controlZones)

	handle("GET "+p+"/log", s.controlLog)
	handle("GET "+p+"/counters", func(*http.Request) (any, error) { return s.journal.count(), nil })
	handle("DELETE "+p+"/log", func(*http.Request) (any, error) { s.journal.reset(); return nil, nil })
	return mux
}

// control runs one operation and writes its result as JSON.
func control(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	result, err := answer(r)
	status := http.StatusOK
	switch {
	case errors.Is(err, errMissing):
		status = http.StatusNotFound
	case errors.Is(err, errConflict):
		status = http.StatusConflict
	case err != nil:
		status = http.StatusBadRequest
	}
	if err != nil {
		result = controlFailure{Error: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(result) // the client is gone if this fails
}

// decode reads the body of a control request strictly.
func decode[T any](r *http.Request) (T, error) {
	var content T
	decoder := json.NewDecoder(io.LimitReader(r.Body, maximumBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&content); err != nil {
		return content, fmt.Errorf("reading the request: %w", err)
	}
	return content, nil
}

func (s *Simulator) controlCA(*http.Request) (any, error) {
	if s.keyring == nil {
		return nil, fmt.Errorf("a CA %w: the simulator serves plain HTTP", errMissing)
	}
	return s.keyring.ca, nil
}

func (s *Simulator) controlClouds(r *http.Request) (any, error) {
	var options Clouds
	if err := json.Unmarshal([]byte(r.FormValue("options")), &options); err != nil {
		return nil, fmt.Errorf("reading the options: %w", err)
	}
	return options.render(s.info, s.keystone.current())
}

func (s *Simulator) controlAddType(r *http.Request) (any, error) {
	shareType, err := decode[ShareType](r)
	if err != nil {
		return nil, err
	}
	return s.manila.add(shareType)
}

func (s *Simulator) controlOrder(r *http.Request) (any, error) {
	wanted, err := decode[controlOrder](r)
	if err != nil {
		return nil, err
	}
	return nil, s.manila.setOrder(wanted.Order)
}

func (s *Simulator) controlSetFault(r *http.Request) (any, error) {
	fault, err := decode[Fault](r)
	if err != nil {
		return nil, err
	}
	if fault, err = fault.normalise(s.config.TLS); err != nil {
		return nil, err
	}
	fault = s.faults.add(fault)
	return fault, s.adjust(r, func(f *frontend) bool { return fault.connection() && f.serves(fault) })
}

func (s *Simulator) controlClearFaults(r *http.Request) (any, error) {
	before := s.faults.list()
	if err := s.faults.clear(r.URL.Query()["id"]...); err != nil {
		return nil, err
	}
	after := map[string]bool{}
	for _, fault := range s.faults.list() {
		after[fault.ID] = true
	}
	return nil, s.adjust(r, func(f *frontend) bool {
		for _, fault := range before {
			if fault.Mode == BadCertificate && !after[fault.ID] && f.serves(fault) {
				return true // nobody who got through with a bad certificate shall keep the connection
			}
		}
		return false
	})
}

// adjust makes every listener follow the faults, and drops the connections of those for which drop says so.
func (s *Simulator) adjust(r *http.Request, drop func(*frontend) bool) error {
	var errs []error
	for _, f := range s.frontends {
		errs = append(errs, f.adjust(r.Context(), drop(f)))
	}
	return errors.Join(errs...)
}

func (s *Simulator) controlRevoke(*http.Request) (any, error) {
	count := s.keystone.revoke()
	s.journal.revoked(count)
	return controlCount{Count: count}, nil
}

func (s *Simulator) controlTTL(r *http.Request) (any, error) {
	wanted, err := decode[controlTTL](r)
	if err != nil {
		return nil, err
	}
	if wanted.TTL <= 0 {
		return nil, fmt.Errorf("token life %s is not positive", wanted.TTL)
	}
	s.keystone.setTTL(wanted.TTL)
	return nil, nil
}

func (s *Simulator) controlRotate(r *http.Request) (any, error) {
	rotation, err := decode[Rotation](r)
	if err != nil {
		return nil, err
	}
	credentials := s.keystone.rotate(rotation)
	if !rotation.KeepTokens {
		s.journal.revoked(s.keystone.revoke())
	}
	return credentials, nil
}

func (s *Simulator) controlCatalog(r *http.Request) (any, error) {
	entry, err := decode[CatalogEntry](r)
	if err != nil {
		return nil, err
	}
	return nil, s.keystone.setRemoved(entry.Type, entry.Removed)
}

func (s *Simulator) controlZones(r *http.Request) (any, error) {
	list, err := decode[[]Zone](r)
	if err != nil {
		return nil, err
	}
	return nil, s.zones.set(Service(r.PathValue("service")), list)
}

func (s *Simulator) controlLog(r *http.Request) (any, error) {
	since, err := strconv.Atoi(r.FormValue("since"))
	if err != nil {
		return nil, fmt.Errorf("reading the number of the first request: %w", err)
	}
	return s.journal.list(since), nil
}
