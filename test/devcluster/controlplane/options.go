// Package controlplane runs a Kubernetes control plane on this machine: etcd and kube-apiserver
// through envtest, and kube-controller-manager, kube-scheduler and kwok as further processes.
// Package cluster calls it, once for each cluster.
package controlplane

import (
	"path/filepath"
	"time"
)

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
