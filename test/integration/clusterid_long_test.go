//go:build integration && long

package integration

import (
	"fmt"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestClusterIDReplacesTheObjectsOfOpenShift starts the operators as in a cluster that is not
// OpenShift: nothing creates serving certificates, nodes have no master label, and the environment
// contains the proxies. The cloud is behind one of them.
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
			e.options.Env = []string{
				"HTTP_PROXY=" + proxy.URL, "HTTPS_PROXY=http://proxy.example.com:3128", "RUN_AS_USER=1001",
				"RELEASE_LEASES=true",
			}
			// The end of the test reads the metrics. Only the manifests for clusters that are not OpenShift
			// contain the permission.
			e.allowed = func(r request) bool { return r.Resource == "subjectaccessreviews" }
			e.startOperator()
			e.awaitAvailable()
			e.expectNone("the operator reads objects of OpenShift", e.requests(e.began,
				func(r request) bool { return strings.Contains(r.URI, "/apis/config.openshift.io/") }))
			deployment, err := e.deployment()
			e.must(err)
			if selector := deployment.Spec.Template.Spec.NodeSelector; len(selector) > 0 {
				t.Errorf("the node selector is %v, want none", selector)
			}
			controllers, err := e.workload(e.subject.Workloads[0])
			e.must(err)
			if user := podUser(controllers); user != 1001 {
				t.Errorf("the controllers run as user %d, want 1001", user)
			}
			e.must(e.usesClusterID(deployment.Spec.Template.Spec, "my-cluster"))
			e.must(sidecarsRelease(deployment.Spec.Template.Spec))
			e.must(e.eachContainer(func(_ workload, c corev1.Container) error {
				proxy := corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://proxy.example.com:3128"}
				if !slices.Contains(c.Env, proxy) {
					return fmt.Errorf("container %s has no proxy", c.Name)
				}
				return nil
			}))
			e.checkCertificate()
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

// sidecarsRelease returns nil if sidecars have short Leases, and release them.
func sidecarsRelease(pod corev1.PodSpec) error {
	for _, c := range pod.Containers {
		if slices.Contains(c.Args, "--leader-election") &&
			!(slices.Contains(c.Args, "--leader-election-lease-duration=15s") &&
				slices.Contains(c.Args, "--feature-gates=ReleaseLeaderElectionOnExit=true")) {
			return fmt.Errorf("container %s keeps its Lease: %q", c.Name, c.Args)
		}
	}
	return nil
}

// checkCertificate checks that pods mount the serving certificate as soon as it exists.
func (e *env) checkCertificate() {
	e.t.Helper()
	mounts := func() (bool, error) {
		deployment, err := e.deployment()
		if err != nil {
			return false, err
		}
		pod := deployment.Spec.Template.Spec
		return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == e.subject.certificate
		}), nil
	}
	if mounted, err := mounts(); err != nil || mounted {
		e.t.Fatalf("pods mount a Secret that does not exist (%v)", err)
	}
	e.must(e.management.putSecret(e.ctx(), e.subject.controllerNamespace, e.subject.certificate,
		map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("key")}))
	e.eventually(prompt, func() error {
		mounted, err := mounts()
		if err == nil && !mounted {
			err = fmt.Errorf("pods do not mount Secret %s", e.subject.certificate)
		}
		return err
	})
}

// podUser returns the user ID of the pods, or 0 if the cluster assigns it.
func podUser(w workload) int64 {
	if c := w.Pod.SecurityContext; c != nil && c.RunAsUser != nil {
		return *c.RunAsUser
	}
	return 0
}
