// Package controlplane runs a Kubernetes control plane on this machine: etcd and kube-apiserver
// through envtest, and kube-controller-manager, kube-scheduler and kwok as further processes.
// Package cluster calls it, once for each cluster.
package controlplane

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// Options are the files and folders of a control plane. All are required.
type Options struct {
	// Binaries is the folder of the programs.
	Binaries string
	// Dir contains certificates, kubeconfigs and data. Start removes it first.
	Dir string
	// Logs is the folder of the log files.
	Logs string
	// AuditLog is the audit log of all requests.
	AuditLog string
	// Kubeconfig is the kubeconfig of a member of system:masters.
	Kubeconfig string
	// Stages is the folder of the stages that kwok plays.
	Stages string
	// CRDs are folders of CustomResourceDefinitions to install.
	CRDs []string
	// Address is an address of this machine at which real nodes reach the API server. Without it the
	// API server listens on loopback, and kwok simulates nodes.
	Address string
	// NodeGrace is the time without a renewal of its lease after which a node is not ready, instead
	// of five minutes.
	NodeGrace time.Duration
	// DriverNames are names of ClusterCSIDrivers that the CRD does not list.
	DriverNames []string
}

func (o Options) binary(name string) string { return filepath.Join(o.Binaries, name) }
func (o Options) log(name string) string    { return filepath.Join(o.Logs, name+".log") }
func (o Options) certs() string             { return filepath.Join(o.Dir, "certs") }
func (o Options) etcdData() string          { return filepath.Join(o.Dir, "etcd") }
func (o Options) auditPolicy() string       { return filepath.Join(o.Dir, "audit-policy.yaml") }
func (o Options) frontProxyCA() string {
	return filepath.Join(o.certs(), "front-proxy-ca.crt")
}
func (o Options) serviceAccountKey() string { return filepath.Join(o.certs(), "sa-signer.key") }
func (o Options) servingCA() string         { return filepath.Join(o.certs(), "serving-ca.crt") }
func (o Options) serviceAccountCert() string {
	return filepath.Join(o.certs(), "sa-signer.crt")
}
func (o Options) servingCert() string { return filepath.Join(o.certs(), "apiserver.crt") }
func (o Options) servingKey() string  { return filepath.Join(o.certs(), "apiserver.key") }
func (o Options) kubeletCert() string { return filepath.Join(o.certs(), "kubelet-client.crt") }
func (o Options) kubeletKey() string  { return filepath.Join(o.certs(), "kubelet-client.key") }
func (o Options) kwokConfig() string  { return filepath.Join(o.Dir, "kwok.yaml") }

func (o Options) kubeconfig(name string) string {
	return filepath.Join(o.Dir, name+".kubeconfig")
}

// clusterCSIDrivers is the CRD that lists the names of its objects.
const clusterCSIDrivers = "clustercsidrivers.operator.openshift.io"

func (c *ControlPlane) installCRDs(context.Context) error {
	options := envtest.CRDInstallOptions{
		Paths:              c.opts.CRDs,
		ErrorIfPathMissing: true,
		MaxTime:            startTimeout,
	}
	if err := envtest.ReadCRDFiles(&options); err != nil {
		return fmt.Errorf("reading CRDs: %w", err)
	}
	options.Paths = nil // read already
	if err := admit(&options, c.opts.DriverNames); err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(c.Config(), options); err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	return nil
}

// admit adds names to the list of the CRD of ClusterCSIDrivers. OpenShift's list contains a new
// driver only after a change of openshift/api, but its operator must run before that.
func admit(options *envtest.CRDInstallOptions, names []string) error {
	for _, crd := range options.CRDs {
		if crd.Name != clusterCSIDrivers {
			continue
		}
		for _, version := range crd.Spec.Versions {
			metadata := version.Schema.OpenAPIV3Schema.Properties["metadata"]
			schema := metadata.Properties["name"]
			if len(schema.Enum) == 0 {
				return fmt.Errorf("CRD %s lists no names in version %s", crd.Name, version.Name)
			}
			admitted := map[string]bool{}
			for _, one := range schema.Enum {
				admitted[string(one.Raw)] = true
			}
			for _, name := range names {
				if quoted := strconv.Quote(name); !admitted[quoted] {
					admitted[quoted] = true
					added := schema.Enum[0] // a copy, because its type is not in a direct dependency
					added.Raw = []byte(quoted)
					schema.Enum = append(schema.Enum, added)
				}
			}
			metadata.Properties["name"] = schema
		}
	}
	return nil
}
