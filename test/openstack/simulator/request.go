package simulator

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// maximumBody is the size of the longest request body that is read.
const maximumBody = 1 << 20

// requestID is the header with the ID that the answering service gave to a request.
const requestID = "X-Openstack-Request-Id"

// call is a request to an OpenStack service, read to its end: only then does the server notice a
// client that leaves.
type call struct {
	id         string
	service    Service
	region     string
	method     string
	urlPath    string
	path       string // below the service, "/v3/auth/tokens"
	header     http.Header
	body       []byte
	connection *connection
	request    *http.Request // its body is read already

	emptyCatalog bool
	outcome      state.Outcome
}

func (c *call) login() bool {
	return c.service == Identity && c.method == http.MethodPost && c.path == "/v3/auth/tokens"
}

type reply struct {
	status int
	header http.Header
	body   []byte

	truncate bool    // send half of the body
	reset    bool    // reset the connection
	foreign  *Answer // send this instead
}

// serve answers every request to an OpenStack service.
func (s *Simulator) serve(w http.ResponseWriter, r *http.Request) {
	c := s.read(r)
	request := s.journal.begin(c)
	answer := s.answer(r.Context(), c, request)
	s.journal.end(request, answer.status) // before the client gets the answer and reads the log
	if answer.reset {
		c.connection.abort()
		return
	}
	for name, values := range answer.header {
		w.Header()[name] = values
	}
	if w.Header().Get(requestID) == "" {
		w.Header().Set(requestID, c.id)
		s.announce(w.Header(), c, answer.status)
	}
	if answer.foreign != nil {
		// Such answers make clients leave.
		_ = answer.foreign.send(r.Context(), s.closed.Done(), w)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.body)))
	w.WriteHeader(answer.status)
	if answer.truncate {
		answer.body = answer.body[:len(answer.body)/2] // the server closes a connection that falls short
	}
	_, _ = w.Write(answer.body)
}

// announce sets the headers that the services add to all answers of a kind.
func (s *Simulator) announce(header http.Header, c *call, status int) {
	switch {
	case c.service == Identity:
		header.Add("Vary", "X-Auth-Token")
	case (c.service == Share || c.service == Volume) && status != http.StatusUnauthorized:
		header.Set("X-Compute-Request-Id", c.id)
	}
	if status == http.StatusUnauthorized {
		header.Set("Www-Authenticate", `Keystone uri="`+s.info.AuthURL+`"`)
	}
}

// read takes a request apart. The service reports a body that is incomplete.
func (s *Simulator) read(r *http.Request) *call {
	c := &call{
		id: "req-" + string(uuid.NewUUID()), method: r.Method, urlPath: r.URL.Path, header: r.Header,
		request: r,
	}
	c.connection, _ = r.Context().Value(connectionKey{}).(*connection)
	c.region, c.service, c.path = s.locate(r.URL.Path)
	c.body, _ = io.ReadAll(io.LimitReader(r.Body, maximumBody))
	return c
}

// answer applies the faults that match the call, and otherwise routes it.
func (s *Simulator) answer(ctx context.Context, c *call, request *Request) reply {
	for _, fault := range s.faults.hit(c) {
		s.journal.affected(request, fault.Mode)
		switch fault.Mode {
		case Hang, Slow:
			if !s.wait(ctx, fault) {
				return reply{reset: true}
			}
		case EmptyCatalog:
			c.emptyCatalog = true
		case Fail:
			c.outcome.Fail = true
		case Stall:
			c.outcome.Held = append(c.outcome.Held, fault.cleared)
		case Reset:
			return reply{reset: true}
		case Status:
			return failure(c, fault.Status, "This answer is a fault of the simulator.")
		case Garbage:
			return garbage(c)
		case Foreign:
			return reply{status: cmp.Or(fault.Answer.Status, http.StatusOK), foreign: fault.Answer}
		case Truncated:
			whole := s.respond(ctx, c)
			whole.truncate = true
			return whole
		}
	}
	return s.respond(ctx, c)
}

// wait returns true when a fault is over, false when the client or the simulator is gone.
func (s *Simulator) wait(ctx context.Context, fault *activeFault) bool {
	var due <-chan time.Time
	if fault.Mode == Slow {
		due = time.After(fault.Delay)
	}
	select {
	case <-fault.cleared:
		return true
	case <-due:
		return true
	case <-ctx.Done():
	case <-s.closed.Done():
	}
	return false
}

// route hands the call to its service.
func (s *Simulator) route(ctx context.Context, c *call) reply {
	switch c.service {
	case Identity:
		return s.routeIdentity(c)
	case "":
		return failure(c, http.StatusNotFound, "The resource could not be found.")
	}
	version, path, _ := strings.Cut(strings.TrimPrefix(c.path, "/"), "/")
	if document := s.versions(c.service, version); path == "" && document != nil {
		return document(c)
	}
	s.mu.Lock()
	authorized, owner := s.authorized(c), s.credentials
	s.mu.Unlock()
	switch {
	case "/"+version != versionPath(c.service):
		answer := httptest.NewRecorder()
		rest.WriteUnknownPath(answer)
		return replyOf(answer)
	case !authorized:
		return failure(c, http.StatusUnauthorized, errorAuthentication)
	}
	return s.routeResource(ctx, c, path, owner)
}

// routeResource hands a call to the API of a service. Paths may contain the project.
func (s *Simulator) routeResource(
	ctx context.Context, c *call, path string, owner Credentials,
) reply {
	endpoint := s.endpoint(c.service, c.region)
	if first, rest, _ := strings.Cut(path, "/"); first == owner.ProjectID {
		endpoint, path = endpoint+"/"+first, rest
	}
	answer := s.apis[c.service].Serve(ctx, &rest.Request{
		Request: &http.Request{
			Method: c.method, Header: c.header,
			URL: &url.URL{Path: "/" + path, RawQuery: c.request.URL.RawQuery},
		},
		Content: c.body, Endpoint: endpoint, UserID: owner.UserID, ProjectID: owner.ProjectID,
		Outcome: c.outcome,
	})
	if c.method != http.MethodGet && s.config.Settle > 0 {
		s.worker.Settle(ctx, s.config.Settle)
	}
	return replyOf(answer)
}

func replyOf(answer *httptest.ResponseRecorder) reply {
	return reply{status: answer.Code, header: answer.Header(), body: answer.Body.Bytes()}
}

func (s *Simulator) routeIdentity(c *call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.login() {
		return s.login(c)
	}
	catalog := c.path == "/v3/auth/catalog"
	switch {
	case c.method == http.MethodGet && (c.path == "/" || c.path == "/v3"):
		return s.identityVersions(c)
	case c.method != http.MethodGet || !catalog && !strings.HasPrefix(c.path, "/v3/users/"):
		return unknownPath()
	case !s.authorized(c):
		return failure(c, http.StatusUnauthorized, errorAuthentication)
	case catalog:
		return s.catalogResponse(c)
	}
	return s.applicationCredential(c)
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

func document(status int, content any) reply {
	body, err := json.Marshal(content)
	if err != nil {
		return reply{status: http.StatusInternalServerError}
	}
	return reply{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: body}
}

// failure is an error of OpenStack. The text of server errors contains the request ID.
func failure(c *call, status int, message string) reply {
	if status >= http.StatusInternalServerError {
		message += " (Request-ID: " + c.id + ")"
	}
	return document(status, map[string]any{"error": map[string]any{
		"code": status, "message": message, "title": http.StatusText(status),
	}})
}

// newID returns an ID as Keystone does, a UUID without dashes.
func newID() string { return strings.ReplaceAll(string(uuid.NewUUID()), "-", "") }
