// Package rest contains what the REST APIs of the simulated OpenStack services share: requests and
// answers, errors, microversions, version documents and lists. The packages of the services use it.
package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Service is the API of one service. NewService creates it.
type Service struct {
	versions Versions
	lock     sync.Locker
	mux      *http.ServeMux
}

// Request is a request of an authenticated user to a service.
type Request struct {
	// Request has the path below the version and the project, such as /volumes/ID.
	*http.Request
	// Content is the body.
	Content []byte
	// Endpoint is the URL of the service with version and project, as the client uses it.
	Endpoint string
	// Version is the microversion that the client asks for.
	Version Version
	// UserID and ProjectID are those of the token.
	UserID, ProjectID string
	// Outcome is what faults do to the operation that the request starts.
	Outcome state.Outcome
}

// Answer is a successful answer.
type Answer struct {
	// Status is 200 if zero.
	Status int
	// Content is encoded as JSON; there is no body if it is nil.
	Content any
}

// Handler answers requests. Its errors become answers: an *Error as it is, others as status 500.
type Handler func(*Request) (Answer, error)

type requestKey struct{}

// NewService returns a service with handlers by their patterns, which hold the lock; see Handle.
func NewService(versions Versions, lock sync.Locker, handlers map[string]Handler) *Service {
	s := &Service{versions: versions, lock: lock, mux: http.NewServeMux()}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		clear(w.Header()) // such answers have no version
		WriteUnknownPath(w)
	})
	for pattern, handler := range handlers {
		s.Handle(pattern, handler)
	}
	return s
}

// WriteUnknownPath answers a request for a path that a service does not have. Nova, Cinder and
// Manila take this text from their web framework.
func WriteUnknownPath(w http.ResponseWriter) {
	writeJSON(w, http.StatusNotFound, map[string]any{
		"message": "The resource could not be found.<br /><br />\n\n\n", "code": "404 Not Found",
		"title": "Not Found",
	})
}

// Handle adds a resource. The pattern is one of http.ServeMux, such as "GET /volumes/{id}".
func (s *Service) Handle(pattern string, handler Handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		request := *r.Context().Value(requestKey{}).(*Request)
		request.Request = r
		s.lock.Lock()
		answer, err := handler(&request)
		s.lock.Unlock()
		write(w, answer, err)
	})
}

// Serve answers a request with header, status and body, and sets the version of the request.
func (s *Service) Serve(ctx context.Context, r *Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	version, err := s.versions.requested(r.Header)
	if version != (Version{}) {
		s.versions.announce(recorder.Header(), version)
	}
	if err != nil {
		write(recorder, Answer{}, err)
		return recorder
	}
	r.Version = version
	s.mux.ServeHTTP(recorder, r.WithContext(context.WithValue(ctx, requestKey{}, r)))
	return recorder
}

// Decode parses the body of the request, which is a JSON object with the given key.
func (r *Request) Decode(key string, content any) error {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Content, &body); err != nil {
		return BadRequest("Malformed request body: %s", err)
	}
	if body[key] == nil {
		return BadRequest("Invalid input for field/attribute %s. '%s' is a required property", key, key)
	}
	if err := json.Unmarshal(body[key], content); err != nil {
		return BadRequest("Invalid input for field/attribute %s. %s", key, err)
	}
	return nil
}

// Action returns the name of the action in the body, which is the only key of a JSON object.
func (r *Request) Action() (string, error) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Content, &body); err != nil || len(body) != 1 {
		return "", BadRequest("Malformed request body")
	}
	for name := range body {
		return name, nil
	}
	return "", nil
}

func write(w http.ResponseWriter, answer Answer, err error) {
	if err != nil {
		var known *Error
		if !errors.As(err, &known) {
			known = &Error{Status: http.StatusInternalServerError, Message: err.Error()}
		}
		known.write(w)
		return
	}
	writeJSON(w, answer.Status, answer.Content)
}

func writeJSON(w http.ResponseWriter, status int, content any) {
	if status == 0 {
		status = http.StatusOK
	}
	if content == nil {
		w.WriteHeader(status)
		return
	}
	body, err := json.Marshal(content)
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a recorder never fails
}

// Error is an error answer of Nova, Cinder or Manila.
type Error struct {
	Status  int
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// BadRequest returns an error with status 400.
func BadRequest(format string, values ...any) error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, values...)}
}

// Forbidden returns an error with status 403.
func Forbidden(format string, values ...any) error {
	return &Error{Status: http.StatusForbidden, Message: fmt.Sprintf(format, values...)}
}

// OverQuota returns the error 413, with which Cinder and Manila refuse what exceeds a quota.
func OverQuota(format string, values ...any) error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf(format, values...)}
}

// NotFound returns an error with status 404, with the usual message if the format is empty.
func NotFound(format string, values ...any) error {
	format = cmp.Or(format, "The resource could not be found.")
	return &Error{Status: http.StatusNotFound, Message: fmt.Sprintf(format, values...)}
}

// write sends the error with the key that the three services use for its status.
func (e *Error) write(w http.ResponseWriter) {
	keys := map[int]string{
		http.StatusBadRequest: "badRequest", http.StatusForbidden: "forbidden",
		http.StatusNotFound: "itemNotFound", http.StatusRequestEntityTooLarge: "overLimit",
	}
	content := map[string]any{"code": e.Status, "message": e.Message}
	if e.Status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Retry-After", "0")
		content["retryAfter"] = "0"
	}
	writeJSON(w, e.Status, map[string]any{cmp.Or(keys[e.Status], "computeFault"): content})
}
