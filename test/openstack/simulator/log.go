package simulator

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Request is one request to an OpenStack service in the log. It contains no body and no header.
type Request struct {
	// Number counts the requests since the simulator started. ResetLog does not reset it.
	Number int
	// Time of arrival.
	Time time.Time
	// Service is empty if the path belongs to none.
	Service Service
	Method  string
	// Path of the URL, without the query.
	Path string
	// Status of the answer; 0 while there is none, and after a reset of the connection.
	Status int
	// Done is set when the simulator has handled the request.
	Done bool
	// Connection is the number of the TCP connection.
	Connection int
	// Faults are the modes of the faults that affected the request.
	Faults []Mode
}

// Counters sum up what happened since the start or the last ResetLog.
type Counters struct {
	// Connections accepted, including those that were reset at once.
	Connections int
	// Requests by service, whatever the answer.
	Requests map[Service]int
	// Calls by method and path, such as "GET /share/v2/types".
	Calls map[string]int
	// LoginAttempts are requests for a token, whatever the answer; Logins are tokens issued.
	LoginAttempts int
	Logins        int
}

// Total is the number of requests to all services.
func (c Counters) Total() int {
	total := 0
	for _, n := range c.Requests {
		total += n
	}
	return total
}

func newCounters() Counters {
	return Counters{Requests: map[Service]int{}, Calls: map[string]int{}}
}

// logLimit is the number of requests in the log. The counters have no limit.
const logLimit = 10_000

type journal struct {
	mu          sync.Mutex
	number      int
	connections int
	requests    []*Request
	counters    Counters
}

func newJournal() *journal { return &journal{counters: newCounters()} }

func (j *journal) connect() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.connections++
	j.counters.Connections++
	return j.connections
}

// begin adds a request on arrival, so that the log contains requests that hang.
func (j *journal) begin(c *call) *Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.number++
	request := &Request{
		Number: j.number, Time: time.Now(), Service: c.service, Method: c.method,
		Path: c.urlPath, Connection: c.connection.number,
	}
	if len(j.requests) == logLimit {
		j.requests = j.requests[1:]
	}
	j.requests = append(j.requests, request)
	j.counters.Requests[c.service]++
	j.counters.Calls[c.method+" "+c.urlPath]++
	if c.login() {
		j.counters.LoginAttempts++
	}
	return request
}

// affected adds a fault to the request.
func (j *journal) affected(request *Request, mode Mode) {
	j.mu.Lock()
	defer j.mu.Unlock()
	request.Faults = append(request.Faults, mode)
}

// end records the answer; status 0 is none.
func (j *journal) end(request *Request, status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	request.Status, request.Done = status, true
}

func (j *journal) loggedIn() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counters.Logins++
}

func (j *journal) list() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	var requests []Request
	for _, request := range j.requests {
		copied := *request
		copied.Faults = slices.Clone(request.Faults)
		requests = append(requests, copied)
	}
	return requests
}

func (j *journal) count() Counters {
	j.mu.Lock()
	defer j.mu.Unlock()
	counters := j.counters
	counters.Requests = maps.Clone(counters.Requests)
	counters.Calls = maps.Clone(counters.Calls)
	return counters
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests, j.counters = nil, newCounters()
}
