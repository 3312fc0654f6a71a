package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Request is one request to an OpenStack service, as the log keeps it. It holds no body and no
// header.
type Request struct {
	// Number counts the requests since the simulator started; a reset of the log does not reset it.
	Number int `json:"number"`
	// Time of arrival.
	Time time.Time `json:"time"`
	// Service and Region of the request. The service is empty if the path belongs to none.
	Service Service `json:"service"`
	Region  string  `json:"region,omitempty"`
	Method  string  `json:"method"`
	// Path of the URL, without the query.
	Path string `json:"path"`
	// Status of the answer; 0 while there is none, and for ever after a reset.
	Status int `json:"status"`
	// Done is set when the simulator has handled the request.
	Done bool `json:"done"`
	// Duration from arrival to answer.
	Duration time.Duration `json:"duration"`
	// Token is a short hash of the token sent with the request, empty without one.
	Token string `json:"token,omitempty"`
	// Connection is the number of the TCP connection.
	Connection int `json:"connection"`
	// Faults are the modes of the faults that struck.
	Faults []Mode `json:"faults,omitempty"`
}

// Counters sum up what happened since the start or the last reset.
type Counters struct {
	// Since is the start of counting.
	Since time.Time `json:"since"`
	// Connections accepted, those reset at once included.
	Connections int `json:"connections"`
	// ConnectionsByListener splits Connections by listener: "all", or the services with
	// Config.SeparatePorts.
	ConnectionsByListener map[string]int `json:"connectionsByListener"`
	// Requests by service, whatever the answer.
	Requests map[Service]int `json:"requests"`
	// Calls by method and path, such as "GET /share/v2/types".
	Calls map[string]int `json:"calls"`
	// Statuses by service and answer, such as "share 200"; 0 is none.
	Statuses map[string]int `json:"statuses"`
	// LoginAttempts are requests for a token, whatever became of them; Logins are tokens issued.
	LoginAttempts int `json:"loginAttempts"`
	Logins        int `json:"logins"`
	// Revocations of tokens, by the API or the control API. Each token counts.
	Revocations int `json:"revocations"`
}

// Total is the number of requests to all services.
func (c Counters) Total() int {
	total := 0
	for _, n := range c.Requests {
		total += n
	}
	return total
}

func newCounters(now time.Time) Counters {
	return Counters{
		Since:                 now,
		ConnectionsByListener: map[string]int{},
		Requests:              map[Service]int{},
		Calls:                 map[string]int{},
		Statuses:              map[string]int{},
	}
}

// journal is the request log with its counters.
type journal struct {
	now   func() time.Time
	limit int

	mu          sync.Mutex
	number      int
	connections int
	requests    []*Request
	counters    Counters
}

func newJournal(limit int, now func() time.Time) *journal {
	return &journal{now: now, limit: limit, counters: newCounters(now())}
}

// connect counts a connection and returns its number.
func (j *journal) connect(listener string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.connections++
	j.counters.Connections++
	j.counters.ConnectionsByListener[listener]++
	return j.connections
}

// begin notes a request on arrival, so that one that hangs is seen.
func (j *journal) begin(c *call) *Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.number++
	request := &Request{
		Number: j.number, Time: j.now(), Service: c.service, Region: c.region, Method: c.method,
		Path: c.urlPath, Token: tokenHash(c.header.Get(headerAuthToken)), Connection: c.connection,
	}
	j.requests = append(j.requests, request)
	if excess := len(j.requests) - j.limit; excess > 0 {
		j.requests = append([]*Request(nil), j.requests[excess:]...)
	}
	j.counters.Requests[c.service]++
	j.counters.Calls[c.method+" "+c.urlPath]++
	if c.login() {
		j.counters.LoginAttempts++
	}
	return request
}

// struck notes a fault that the request met.
func (j *journal) struck(request *Request, mode Mode) {
	j.mu.Lock()
	defer j.mu.Unlock()
	request.Faults = append(request.Faults, mode)
}

// end notes the answer; status 0 is none.
func (j *journal) end(request *Request, status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	request.Status, request.Done, request.Duration = status, true, j.now().Sub(request.Time)
	j.counters.Statuses[fmt.Sprintf("%s %d", request.Service, status)]++
}

// loggedIn counts a token issued, revoked some that were revoked.
func (j *journal) loggedIn() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counters.Logins++
}

func (j *journal) revoked(tokens int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counters.Revocations += tokens
}

// list returns copies of the requests with a number above since.
func (j *journal) list(since int) []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	requests := []Request{}
	for _, request := range j.requests {
		if request.Number > since {
			seen := *request
			seen.Faults = append([]Mode(nil), request.Faults...)
			requests = append(requests, seen)
		}
	}
	return requests
}

// count returns a copy of the counters.
func (j *journal) count() Counters {
	j.mu.Lock()
	defer j.mu.Unlock()
	counters := j.counters
	counters.ConnectionsByListener = maps.Clone(counters.ConnectionsByListener)
	counters.Requests = maps.Clone(counters.Requests)
	counters.Calls = maps.Clone(counters.Calls)
	counters.Statuses = maps.Clone(counters.Statuses)
	return counters
}

// reset forgets all requests and starts counting at zero.
func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests, j.counters = nil, newCounters(j.now())
}

// tokenHash names a token without giving it away.
func tokenHash(token string) string {
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:4])
}
