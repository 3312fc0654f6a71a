package host

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
)

// lease is the Lease of a leader.
type lease struct {
	elector *leaderelection.LeaderElector
	release context.CancelFunc
}

// protect returns a configuration whose clients write only while the process holds the Lease. A
// process that was frozen, for example with its node, first notices that another process leads when
// it has tried to renew the Lease until the deadline. With the durations of OpenShift both would
// write for 107 s.
func (l *lease) protect(config *rest.Config) *rest.Config {
	if l == nil {
		return config
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return leaderTransport{next, l} })
	return config
}

// isHeld returns whether the process holds the Lease. If it does not, it stops leading.
func (l *lease) isHeld() bool {
	if l.elector.IsLeader() && l.elector.Check(0) == nil {
		return true
	}
	l.release()
	return false
}

// leaderTransport sends only reads without the Lease.
type leaderTransport struct {
	http.RoundTripper

	lease *lease
}

// RoundTrip implements http.RoundTripper.
func (t leaderTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || t.lease.isHeld() {
		return t.RoundTripper.RoundTrip(request)
	}
	err := errLeaseLost
	if request.Body != nil {
		err = errors.Join(err, request.Body.Close())
	}
	return nil, err
}
