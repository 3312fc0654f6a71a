// Package controlplane runs a Kubernetes control plane on loopback: etcd and
// kube-apiserver through envtest, kube-controller-manager, kube-scheduler and
// kwok as further processes. Several can run side by side. Package cluster uses
// it.
package controlplane

import "path/filepath"

// Options says where a control plane keeps its files. All are needed.
type Options struct {
	// Binaries is the folder that package build filled.
	Binaries string
	// Dir holds certificates, kubeconfigs and data. It is emptied at start.
	Dir string
	// Logs is the folder of the log files.
	Logs string
	// AuditLog is the file that names every request.
	AuditLog string
	// Stages is the folder of the stages that kwok plays.
	Stages string
	// CRDs are folders of CustomResourceDefinitions to install.
	CRDs []string
	// DriverNames are names that ClusterCSIDrivers may have beside those of their CRD.
	DriverNames []string
}

func (o Options) binary(name string) string { return filepath.Join(o.Binaries, name) }
func (o Options) log(name string) string    { return filepath.Join(o.Logs, name+".log") }
func (o Options) certs() string             { return filepath.Join(o.Dir, "certs") }
func (o Options) etcdData() string          { return filepath.Join(o.Dir, "etcd") }
func (o Options) auditPolicy() string       { return filepath.Join(o.Dir, "audit-policy.yaml") }
func (o Options) frontProxyCA() string      { return filepath.Join(o.certs(), "front-proxy-ca.crt") }
func (o Options) serviceAccountKey() string { return filepath.Join(o.certs(), "sa-signer.key") }
func (o Options) servingCA() string         { return filepath.Join(o.certs(), "serving-ca.crt") }
func (o Options) kwokConfig() string        { return filepath.Join(o.Dir, "kwok.yaml") }

func (o Options) kubeconfig(name string) string {
	return filepath.Join(o.Dir, name+".kubeconfig")
}
