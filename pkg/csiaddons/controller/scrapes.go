package controller

import (
	"net/http"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/callers"
)

const (
	// scrapesPerSecond and scrapeBurst limit the requests for metrics from one network. The check of
	// an unknown token sends two requests to the API server.
	scrapesPerSecond, scrapeBurst = 1, 10
	// maxScrapes limits the requests for metrics at the same time.
	maxScrapes = 4
	// maxScrapers is the number of networks to remember.
	maxScrapers = 1024
)

// checkedMetrics returns a filter that serves metrics only to users who may get them, and limits
// how often that is checked.
func checkedMetrics(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	check, err := filters.WithAuthenticationAndAuthorization(config, client)
	if err != nil {
		return nil, err
	}
	return func(log logr.Logger, metrics http.Handler) (http.Handler, error) {
		checked, err := check(log, metrics)
		if err != nil {
			return nil, err
		}
		return limited(checked), nil
	}, nil
}

// limited returns a handler that limits the requests to another.
func limited(handler http.Handler) http.Handler {
	limits := callers.New(scrapesPerSecond, scrapeBurst, maxScrapers)
	running := semaphore.NewWeighted(maxScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !limits.Allow(r.RemoteAddr) {
			http.Error(w, "too many requests from this network", http.StatusTooManyRequests)
			return
		}
		if running.Acquire(r.Context(), 1) != nil {
			return // the client has gone
		}
		defer running.Release(1)
		handler.ServeHTTP(w, r)
	})
}
