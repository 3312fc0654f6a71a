package simulator

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	headerAuthToken    = "X-Auth-Token"
	headerSubjectToken = "X-Subject-Token"
	headerRequestID    = "X-Openstack-Request-Id"
	maximumBody        = 1 << 20
)

// call is a request to an OpenStack service, read to its end: only then does the server notice a
// client that leaves.
type call struct {
	id         string
	service    Service
	region     string
	method     string
	urlPath    string
	path       string // below the service, "/v3/auth/tokens"
	query      url.Values
	header     http.Header
	body       []byte
	connection int

	emptyCatalog bool
}

// login returns whether the call requests a token.
func (c *call) login() bool {
	return c.service == Identity && c.method == http.MethodPost && c.path == "/v3/auth/tokens"
}

// reply is an answer to a call.
type reply struct {
	status int
	header http.Header
	body   []byte

	truncate bool    // send half of the body
	reset    bool    // send nothing
	foreign  *Answer // send this instead
}

// serve answers every request to an OpenStack service.
func (s *Simulator) serve(w http.ResponseWriter, r *http.Request) {
	c := s.read(r)
	request := s.journal.begin(c)
	answer, stay := s.answer(r.Context(), c, request)
	if !stay || answer.reset {
		s.journal.end(request, 0)
		if conn, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			conn.abort()
		}
		return
	}
	s.journal.end(request, answer.status) // before the client can have the answer and look
	for name, values := range answer.header {
		w.Header()[name] = values
	}
	w.Header().Set(headerRequestID, c.id)
	if answer.foreign != nil {
		// A client that leaves is what such answers are for.
		_ = answer.foreign.send(r.Context(), s.closed.Done(), w)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.body)))
	w.WriteHeader(answer.status)
	if r.Method == http.MethodHead {
		return
	}
	if answer.truncate {
		answer.body = answer.body[:len(answer.body)/2] // the server closes a connection that falls short
	}
	_, _ = w.Write(answer.body)
}

// read takes a request apart. A body that breaks off is for the service to complain about.
func (s *Simulator) read(r *http.Request) *call {
	c := &call{
		id: requestID(), method: r.Method, urlPath: r.URL.Path, query: r.URL.Query(), header: r.Header,
	}
	c.region, c.service, c.path = s.locate(r.URL.Path)
	c.body, _ = io.ReadAll(io.LimitReader(r.Body, maximumBody))
	if conn, ok := r.Context().Value(connectionKey{}).(*connection); ok {
		c.connection = conn.number
	}
	return c
}

// answer applies the faults that the call meets and otherwise routes it. It returns false if there
// is nobody left to answer.
func (s *Simulator) answer(ctx context.Context, c *call, request *Request) (reply, bool) {
	for _, fault := range s.faults.strike(c) {
		s.journal.struck(request, fault.Mode)
		switch fault.Mode {
		case Hang:
			if !s.wait(ctx, fault.cleared, nil) {
				return reply{}, false
			}
		case Slow:
			if !s.wait(ctx, fault.cleared, time.After(fault.Delay)) {
				return reply{}, false
			}
		case EmptyCatalog:
			c.emptyCatalog = true
		case Reset:
			return reply{reset: true}, true
		case Status:
			return s.failure(c, fault.Status, "This answer is a fault of the simulator."), true
		case Garbage:
			return garbage(c), true
		case Foreign:
			return reply{status: cmp.Or(fault.Answer.Status, http.StatusOK), foreign: fault.Answer}, true
		case Truncated:
			whole := s.route(c)
			whole.truncate = true
			return whole, true
		}
	}
	return s.route(c), true
}

// wait returns true when a fault is over, false when the client or the simulator is gone.
func (s *Simulator) wait(ctx context.Context, cleared <-chan struct{}, due <-chan time.Time) bool {
	select {
	case <-cleared:
		return true
	case <-due:
		return true
	case <-ctx.Done():
	case <-s.closed.Done():
	}
	return false
}

// route hands the call to its service.
func (s *Simulator) route(c *call) reply {
	switch c.service {
	case Identity:
		return s.identity(c)
	case Share:
		return s.share(c)
	case Compute, Volume:
		return s.availability(c)
	}
	return s.failure(c, http.StatusNotFound, "There is no OpenStack service at this path.")
}

// garbage is what a captive portal or a broken balancer sends.
func garbage(c *call) reply {
	status := http.StatusOK
	if c.login() {
		status = http.StatusCreated
	}
	return reply{
		status: status,
		header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		body:   []byte("<!DOCTYPE html><html><body><h1>It works!</h1></body></html>\n"),
	}
}

// document is an answer in JSON.
func document(status int, content any) reply {
	body, err := json.Marshal(content)
	if err != nil {
		return reply{status: http.StatusInternalServerError}
	}
	return reply{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: body}
}

// failure is an error in the form of the service. Server errors carry the request ID in the text.
func (s *Simulator) failure(c *call, status int, message string) reply {
	if status >= http.StatusInternalServerError {
		message += " (Request-ID: " + c.id + ")"
	}
	kind, content := errorKind(status), map[string]any{"code": status, "message": message}
	if c.service == Identity || status == http.StatusUnauthorized {
		kind, content["title"] = "error", http.StatusText(status)
	}
	answer := document(status, map[string]any{kind: content})
	if status == http.StatusUnauthorized {
		challenge := `Keystone uri="` + s.endpoint(Identity, s.config.Regions[0]) + `"`
		answer.header["Www-Authenticate"] = []string{challenge}
	}
	return answer
}

// errorKind is the key under which Nova, Cinder and Manila describe an error.
func errorKind(status int) string {
	kinds := map[int]string{
		http.StatusBadRequest: "badRequest", http.StatusForbidden: "forbidden",
		http.StatusNotFound: "itemNotFound", http.StatusMethodNotAllowed: "badMethod",
		http.StatusConflict: "conflictingRequest", http.StatusRequestEntityTooLarge: "overLimit",
		http.StatusTooManyRequests: "overLimit", http.StatusNotImplemented: "notImplemented",
		http.StatusServiceUnavailable: "serviceUnavailable",
	}
	if kind, ok := kinds[status]; ok {
		return kind
	}
	return "computeFault"
}

// requestID makes an ID as the services do.
func requestID() string { return "req-" + newUUID() }

// newUUID makes a random UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// newID makes an ID as Keystone does, a UUID without dashes.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// stableID makes an ID of the parts of a name.
func stableID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return hex.EncodeToString(sum[:16])
}
