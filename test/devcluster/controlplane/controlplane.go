package controlplane

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

const (
	startTimeout = 3 * time.Minute
	stopTimeout  = 20 * time.Second
)

//go:embed audit-policy.yaml
var auditPolicy []byte

// ControlPlane is a running control plane.
type ControlPlane struct {
	opts   Options
	plane  *envtest.ControlPlane
	admin  *envtest.AuthenticatedUser
	client kubernetes.Interface
	failed chan error
	// kubeletCA is the CA of the API server as a client of real kubelets.
	kubeletCA []byte

	mu       sync.Mutex // guards the fields below, which change with an outage
	children []*process.Process
	// expected stops the monitoring of children and API server before they are stopped on purpose.
	expected context.CancelFunc
	outage   *outage // nil while the API server is there
}

// Start starts all components and installs the CRDs. If it fails, it stops what it has started. The
// control plane then runs until Stop is called, even after the end of ctx.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	c := &ControlPlane{opts: o, failed: make(chan error, 1)}
	steps := []func(context.Context) error{
		c.writeFiles, c.startAPIServer, c.startComponents, c.installCRDs,
	}
	for _, step := range steps {
		err := ctx.Err()
		if err == nil {
			err = step(ctx)
		}
		if err != nil {
			c.Stop()
			return nil, err
		}
	}
	return c, nil
}

// Config returns the client configuration of a member of system:masters.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin.Config()) }

// Client returns a client of a member of system:masters.
func (c *ControlPlane) Client() kubernetes.Interface { return c.client }

// Etcd returns the URL of etcd.
func (c *ControlPlane) Etcd() string { return c.plane.Etcd.URL.String() }

// Failed delivers the first unexpected end of a component.
func (c *ControlPlane) Failed() <-chan error { return c.failed }

// Issue returns a kubeconfig of a member of the groups, with a new certificate each time.
func (c *ControlPlane) Issue(user string, groups ...string) ([]byte, error) {
	issued, err := c.plane.AddUser(envtest.User{Name: user, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("adding user %q: %w", user, err)
	}
	return issued.KubeConfig()
}

// Stop stops all components, clients of the API server first.
func (c *ControlPlane) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopComponents()
	if c.outage != nil {
		// A frozen process does not handle signals. A process that has ended stays so.
		_ = c.outage.end()
	}
	if c.plane != nil {
		// envtest kills a process that does not stop in time, and returns only that error.
		_ = c.plane.Stop()
	}
}

func (c *ControlPlane) writeFiles(context.Context) error {
	if err := os.RemoveAll(c.opts.Dir); err != nil {
		return fmt.Errorf("removing the previous control plane: %w", err)
	}
	if err := os.MkdirAll(c.opts.certs(), 0o700); err != nil {
		return fmt.Errorf("making the control plane folder: %w", err)
	}
	if err := os.WriteFile(c.opts.auditPolicy(), auditPolicy, 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return c.writeFrontProxyCA()
}

// writeFrontProxyCA makes the API server publish a request header CA, which servers with delegated
// authentication require. Its key is not kept, because nothing is aggregated.
func (c *ControlPlane) writeFrontProxyCA() error {
	_, encoded, err := newCA("front-proxy-ca")
	if err == nil {
		err = os.WriteFile(c.opts.frontProxyCA(), encoded, 0o600)
	}
	if err != nil {
		return fmt.Errorf("making the front proxy CA: %w", err)
	}
	return nil
}
