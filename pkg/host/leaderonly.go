package host

import (
	"errors"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
)

// leaderOnly returns a configuration whose clients only read after the Lease has expired. A process
// that was frozen, for example with its node, would otherwise continue to write for a moment while
// another one leads.
func leaderOnly(config *rest.Config, elector *leaderelection.LeaderElector) *rest.Config {
	if elector == nil {
		return config
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return leaderTransport{next, elector}
	})
	return config
}

type leaderTransport struct {
	http.RoundTripper

	elector *leaderelection.LeaderElector
}

// RoundTrip implements http.RoundTripper.
func (t leaderTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || t.elector.IsLeader() && t.elector.Check(0) == nil {
		return t.RoundTripper.RoundTrip(request)
	}
	err := errLeaseLost
	if request.Body != nil {
		err = errors.Join(err, request.Body.Close())
	}
	return nil, err
}
