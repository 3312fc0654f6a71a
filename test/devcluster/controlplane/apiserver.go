package controlplane

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// The clients of the devcluster need no throttling.
const (
	clientQPS   = 200
	clientBurst = 400
)

func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	etcdLog, err := process.OpenLog(c.opts.log("etcd"))
	if err != nil {
		return err
	}
	defer etcdLog.Close()
	apiLog, err := process.OpenLog(c.opts.log("kube-apiserver"))
	if err != nil {
		return err
	}
	defer apiLog.Close()

	plane := &envtest.ControlPlane{
		Etcd: &envtest.Etcd{
			Path: c.opts.binary("etcd"), DataDir: c.opts.etcdData(),
			StartTimeout: startTimeout, StopTimeout: stopTimeout,
			Out: etcdLog, Err: etcdLog,
		},
		APIServer: &envtest.APIServer{
			Path: c.opts.binary("kube-apiserver"), CertDir: c.opts.certs(),
			StartTimeout: startTimeout, StopTimeout: stopTimeout,
			Out: apiLog, Err: apiLog,
		},
	}
	plane.Etcd.Configure().Set("log-level", "warn")
	c.configureAPIServer(plane.APIServer)
	if c.opts.Address != "" {
		if err := c.serveNodes(ctx, plane.APIServer); err != nil {
			return err
		}
	}
	if err := plane.Start(); err != nil {
		return c.startError(err)
	}
	c.plane = plane
	return c.addAdmin()
}

// startError adds the log of the component that failed. Without etcd, kube-apiserver has no log.
func (c *ControlPlane) startError(err error) error {
	log := c.opts.log("kube-apiserver")
	if process.Tail(log) == "" {
		log = c.opts.log("etcd")
	}
	return process.WithLog(fmt.Errorf("starting etcd and kube-apiserver: %w", err), log)
}

func (c *ControlPlane) configureAPIServer(s *envtest.APIServer) {
	s.Configure().
		Disable("disable-admission-plugins"). // envtest would switch off ServiceAccount
		Set("service-account-issuer", "https://kubernetes.default.svc").
		Set("service-cluster-ip-range", serviceNetwork).
		Set("audit-policy-file", c.opts.auditPolicy()).
		Set("audit-log-path", c.opts.AuditLog).
		Set("requestheader-client-ca-file", c.opts.frontProxyCA()).
		Set("requestheader-allowed-names", "front-proxy-client").
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-").
		// A loopback address is no valid endpoint of the kubernetes service.
		Set("endpoint-reconciler-type", "none").
		Set("profiling", "false")
}

func (c *ControlPlane) addAdmin() error {
	base := &rest.Config{QPS: clientQPS, Burst: clientBurst, UserAgent: "devcluster"}
	admin, err := c.plane.AddUser(
		envtest.User{Name: "admin", Groups: []string{"system:masters"}}, base)
	if err != nil {
		return fmt.Errorf("adding user admin: %w", err)
	}
	c.admin = admin
	if c.client, err = kubernetes.NewForConfig(c.Config()); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	kubeconfig, err := admin.KubeConfig()
	if err == nil {
		err = os.WriteFile(c.opts.Kubeconfig, kubeconfig, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of user admin: %w", err)
	}
	if err := os.WriteFile(c.opts.servingCA(), admin.Config().CAData, 0o600); err != nil {
		return fmt.Errorf("writing the serving CA: %w", err)
	}
	return nil
}

// watchAPIServer reports an API server that does not answer any more, because envtest does not
// report the end of its processes. On a busy machine, etcd may need more than the two seconds in
// which the API server expects its answer.
func (c *ControlPlane) watchAPIServer(ctx context.Context) {
	const patience = 12
	var err error
	for misses := 0; misses < patience; misses++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(answerTimeout):
		}
		if err = c.get(ctx, "/livez"); err == nil {
			misses = -1
		}
	}
	if ctx.Err() == nil {
		c.report(process.WithLog(fmt.Errorf("kube-apiserver does not answer: %w", err),
			c.opts.log("kube-apiserver")))
	}
}

func (c *ControlPlane) get(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return c.client.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx).Error()
}

// report keeps the first failure. Later failures are mostly its consequences.
func (c *ControlPlane) report(err error) {
	select {
	case c.failed <- err:
	default:
	}
}
