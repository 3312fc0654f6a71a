package controller

import (
	"net/http"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// checkedMetrics returns a filter that serves metrics only to users who may get them.
func checkedMetrics(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	return filters.WithAuthenticationAndAuthorization(config, client)
}
