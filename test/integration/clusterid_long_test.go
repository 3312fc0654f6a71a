//go:build integration && long

package integration

import (
	"fmt"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestClusterIDReplacesTheObjectsOfOpenShift starts the operators as in a cluster that is not
// OpenShift: nothing creates serving certificates, and the environment contains the proxy of the
// cloud.
func TestClusterIDReplacesTheObjectsOfOpenShift(t *testing.T) {
	t.Parallel()
	for _, s := range subjects() {
		t.Run(s.Driver, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{
				Subject: s, Idle: true,
				Cloud: simulator.Config{AdvertisedHost: "cloud.example.test"},
				Args:  []string{"--cluster-id=my-cluster"},
			})
			auth, err := url.Parse(e.cloud.Info().AuthURL)
			e.must(err)
			var served atomic.Int64
			proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				served.Add(1)
				r.Out.URL.Host, r.Out.Host = net.JoinHostPort("127.0.0.1", auth.Port()), r.In.Host
			}})
			t.Cleanup(proxy.Close)
			e.options.Env = []string{"HTTP_PROXY=" + proxy.URL}
			// The end of the test reads the metrics. Only the manifests for clusters that are not OpenShift
			// contain the permission.
			e.allowed = func(r request) bool { return r.Resource == "subjectaccessreviews" }
			e.startOperator()
			e.awaitAvailable()
			e.expectNone("the operator reads objects of OpenShift", e.requests(e.began,
				func(r request) bool { return strings.Contains(r.URI, "/apis/config.openshift.io/") }))
			deployment, err := e.deployment()
			e.must(err)
			e.must(e.usesClusterID(deployment.Spec.Template.Spec, "my-cluster"))
			assert.Check(t, served.Load() > 0, "the proxy was not used")
		})
	}
}

func (e *env) usesClusterID(pod corev1.PodSpec, id string) error {
	for _, c := range pod.Containers {
		for _, arg := range c.Args {
			flag, value, _ := strings.Cut(arg, "=")
			if (flag == "--cluster-id" || flag == "--cluster") && value == id {
				return nil
			}
		}
	}
	return fmt.Errorf("no container has the cluster ID %s", id)
}
