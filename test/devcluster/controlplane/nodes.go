package controlplane

import (
	"context"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/openshift/library-go/pkg/crypto"
)

const (
	// serviceNetwork contains the addresses of Services. The first is that of the API server.
	serviceNetwork = "172.30.0.0/16"
	serviceAddress = "172.30.0.1"
)

// serveNodes lets the API server listen at an address that real nodes reach, restricts nodes to
// their own objects, and lets it read logs and execute commands through their kubelets.
func (c *ControlPlane) serveNodes(ctx context.Context, s *envtest.APIServer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(c.opts.Address, "0"))
	if err != nil {
		return fmt.Errorf("finding a free port: %w", err)
	}
	if err := listener.Close(); err != nil {
		return fmt.Errorf("releasing a free port: %w", err)
	}
	s.Address, s.Port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	s.Configure().
		Set("authorization-mode", "Node,RBAC").
		Set("enable-admission-plugins", "NodeRestriction").
		Set("endpoint-reconciler-type", "lease").
		Set("kubelet-preferred-address-types", "InternalIP").
		Set("kubelet-client-certificate", c.opts.kubeletCert()).
		Set("kubelet-client-key", c.opts.kubeletKey())
	ca, err := c.writeServingCertificate()
	if err != nil {
		return fmt.Errorf("making the certificates of kube-apiserver: %w", err)
	}
	s.CA = ca
	if err := c.writeKubeletClient(); err != nil {
		return fmt.Errorf("making the certificate for kubelets: %w", err)
	}
	return nil
}

func keys() crypto.KeyPairGenerator { return crypto.ECDSAKeyPairGenerator{Curve: crypto.P256} }

// newCA returns a CA with its certificate in PEM.
func newCA(name string) (*crypto.CA, []byte, error) {
	config, err := crypto.NewSigningCertificate(name, keys())
	if err != nil {
		return nil, nil, err
	}
	certificate, err := crypto.EncodeCertificates(config.Certs...)
	if err != nil {
		return nil, nil, err
	}
	serials := &crypto.RandomSerialGenerator{}
	return &crypto.CA{Config: config, SerialGenerator: serials}, certificate, nil
}

// writeServingCertificate writes what envtest would write, with the addresses of the API server for
// pods: envtest keeps existing files. It returns the CA.
func (c *ControlPlane) writeServingCertificate() ([]byte, error) {
	ca, certificate, err := newCA("kube-apiserver")
	if err != nil {
		return nil, err
	}
	serving, err := ca.NewServerCertificate(sets.New(c.opts.Address, serviceAddress, "localhost",
		"127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"), keys())
	if err != nil {
		return nil, err
	}
	err = serving.WriteCertConfigFile(c.opts.servingCert(), c.opts.servingKey())
	if err != nil {
		return nil, err
	}
	signer, _, err := newCA("service-accounts")
	if err != nil {
		return nil, err
	}
	err = signer.Config.WriteCertConfigFile(c.opts.serviceAccountCert(), c.opts.serviceAccountKey())
	return certificate, err
}

// writeKubeletClient writes the certificate of the API server as a client of kubelets.
func (c *ControlPlane) writeKubeletClient() error {
	ca, certificate, err := newCA("kubelet-clients")
	if err != nil {
		return err
	}
	client, err := ca.NewClientCertificate(&user.DefaultInfo{
		Name: "kube-apiserver-kubelet-client", Groups: []string{user.SystemPrivilegedGroup},
	}, keys())
	if err != nil {
		return err
	}
	c.kubeletCA = certificate
	return client.WriteCertConfigFile(c.opts.kubeletCert(), c.opts.kubeletKey())
}

// KubeletCA returns the CA of the API server as a client of kubelets.
func (c *ControlPlane) KubeletCA() []byte { return c.kubeletCA }
