//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request is one request that the API server answered, from its audit log.
type request struct {
	Side                                                    *side
	User, Verb, Resource, Subresource, Namespace, Name, URI string
	Code                                                    int
	Time                                                    time.Time
}

func (r request) String() string {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return fmt.Sprintf("%s %s: %s %s %s/%s: %d (%s)", r.Time.Format("15:04:05.000"), r.Side.name, r.Verb, resource, r.Namespace, r.Name, r.Code, r.URI)
}

// isWrite tells whether it changes something, apart from the lease that a leader renews and reviews, which change nothing.
func (r request) isWrite() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) &&
		!slices.Contains([]string{"leases", "tokenreviews", "subjectaccessreviews"}, r.Resource)
}

// isOfNamespace tells whether it is for all objects of a kind in a namespace.
func (r request) isOfNamespace() bool {
	return r.Namespace != "" && r.Name == "" && (r.Verb == "list" || r.Verb == "watch") && !strings.Contains(r.URI, "metadata.name")
}

// auditMark is a moment, and its place in the audit logs.
type auditMark struct {
	offsets map[*side]int64
	time    time.Time
}

// isBelated tells an event that was made before the mark: the operator's client sends events late, a few a second. The name
// of an event ends in the time at which it was made.
func (r request) isBelated(since auditMark) bool {
	if r.Resource != "events" || r.Verb != "create" {
		return false
	}
	made, err := strconv.ParseInt(r.Name[strings.LastIndex(r.Name, ".")+1:], 16, 64)
	return err == nil && time.Unix(0, made).Before(since.time)
}

// auditEvent is what is read of a line of the log.
type auditEvent struct {
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

// sender is who sends requests: a user, or a program whose credentials are refused.
type sender struct{ user, program string }

// isOf tells whether the request was sent by the sender. To who is refused the API server gives no name.
func (e auditEvent) isOf(s sender) bool {
	if e.ResponseStatus.Code == http.StatusUnauthorized {
		return strings.HasPrefix(e.UserAgent, s.program+"/")
	}
	return e.User.Username == s.user && e.Stage == "ResponseComplete"
}

// requestsSince returns the requests of a sender that ended after a place in the audit log.
func (s *side) requestsSince(offset int64, from sender) ([]request, error) {
	file, err := os.Open(s.auditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	var requests []request
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadString('\n')
		if err == io.EOF {
			return requests, nil // a line without end is being written
		}
		if err != nil {
			return nil, err
		}
		if !strings.Contains(line, from.user) && !strings.Contains(line, from.program) {
			continue
		}
		var e auditEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if e.isOf(from) {
			requests = append(requests, request{
				Side: s, User: e.User.Username, Verb: e.Verb, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
				Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, URI: e.RequestURI, Code: e.ResponseStatus.Code, Time: e.Received,
			})
		}
	}
}

// endOfLines is the place after the last line of a file that has been written to its end.
func endOfLines(path string) (int64, error) {
	const most = 1 << 20 // no line is longer
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	start := max(0, info.Size()-most)
	text := make([]byte, info.Size()-start)
	if _, err := file.ReadAt(text, start); err != nil {
		return 0, err
	}
	return start + int64(bytes.LastIndexByte(text, '\n')) + 1, nil
}

// mark returns the present end of the audit logs.
func (e *env) mark() auditMark {
	e.t.Helper()
	mark := auditMark{map[*side]int64{}, time.Now()}
	for _, s := range e.sides() {
		end, err := endOfLines(s.auditLog())
		if err != nil {
			e.t.Fatalf("finding the end of the audit log: %v", err)
		}
		mark.offsets[s] = end
	}
	return mark
}

// requests returns the operator's requests since the mark that all the filters accept, of one side after the other.
func (e *env) requests(since auditMark, filters ...func(request) bool) []request {
	e.t.Helper()
	var all []request
	for _, s := range e.sides() {
		some, err := s.requestsSince(since.offsets[s], sender{s.user(e.subject.name), e.subject.program})
		if err != nil {
			e.t.Fatalf("reading the audit log: %v", err)
		}
		all = append(all, some...)
	}
	return slices.DeleteFunc(all, func(r request) bool {
		return slices.ContainsFunc(filters, func(accept func(request) bool) bool { return !accept(r) })
	})
}

// writes returns what the operator has written since the mark, leases excepted.
func (e *env) writes(since auditMark) []request {
	e.t.Helper()
	return e.requests(since, request.isWrite, func(r request) bool { return !r.isBelated(since) })
}

// on accepts requests to one cluster.
func on(s *side) func(request) bool {
	return func(r request) bool { return r.Side == s }
}

// ofResource accepts requests on a resource, such as "storageclasses".
func ofResource(resource string) func(request) bool {
	return func(r request) bool { return r.Resource == resource }
}

// ofVerb accepts requests with one of the verbs.
func ofVerb(verbs ...string) func(request) bool {
	return func(r request) bool { return slices.Contains(verbs, r.Verb) }
}

// statusWrites accepts writes of the ClusterCSIDriver's status.
func statusWrites(r request) bool {
	return r.isWrite() && r.Resource == "clustercsidrivers" && r.Subresource == "status"
}

// successful accepts requests that the API server granted: a conflict has written nothing.
func successful(r request) bool { return r.Code < 300 }

// list writes requests one a line.
func list(requests []request) string {
	lines := make([]string, 0, len(requests))
	for _, r := range requests {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n")
}
