//go:build integration

package integration

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// options change the environment of a test. By default it contains a healthy cloud with one share
// type, and an operator that polls fast.
type options struct {
	// Flavour defaults to standalone.
	Flavour flavour.Flavour
	// Subject is the operator under test. It defaults to Manila's.
	Subject subject
	// Cloud configures the OpenStack. newEnv replaces its secrets by recognisable ones.
	Cloud simulator.Config
	// Types are the names of its share types. nil means "default", noTypes none.
	Types []string
	// Clouds configures clouds.yaml.
	Clouds simulator.Clouds
	// NoCA leaves the CA of a TLS cloud out of the cluster.
	NoCA bool
	// CAInConfig leaves the CA of a TLS cloud out of the credentials. Only ConfigMap
	// cloud-provider-config, or its HyperShift counterpart, contains it.
	CAInConfig bool
	// NoCredentials omits all Secrets and ConfigMaps about the cloud.
	NoCredentials bool
	// PollInterval defaults to 300 ms. If it is negative, the operator gets no --poll-interval.
	PollInterval time.Duration
	// Args and Env are added to those of the operator's Deployment.
	Args, Env []string
	// Faults are enabled before the operator starts.
	Faults []simulator.Fault
	// Before changes the cluster before the operator starts.
	Before func(*env)
	// Idle leaves the start of the operator to the test, which calls startOperator.
	Idle bool
}

// noTypes is the value of options.Types for a cloud without share types.
func noTypes() []string { return []string{} }

// env is the environment of a test. Its embedded types contain helpers by topic.
type env struct {
	*scope       // the test, and waiting
	*testCluster // the clusters
	*openStack   // the cloud
	*audit       // the operator's requests to the clusters

	options options
	// subject describes the operator under test.
	subject subject
	// operator is the running process, or nil.
	operator *operatorRun
	// began is the position in the audit logs at which the test begins.
	began auditMark
	// files is the folder of the operator's files and log. It is removed with the cluster.
	files paths.Dir
	// secrets must not appear outside of Secrets. proxyPasswords may appear where containers and
	// operators read the URLs of proxies, too.
	secrets, proxyPasswords []string
	// client sends requests to the operator's HTTPS server.
	client *http.Client
	// scraper is the token of Prometheus, set by the first scrape.
	scraper string
	// allowed accepts refused requests that the test provokes. If it is nil, there are none.
	allowed func(request) bool
}

// newEnv resets the cluster and starts a cloud and the operator. It checks them when the test ends.
func newEnv(t *testing.T, o options) *env {
	t.Helper()
	e := &env{scope: &scope{t: t}, options: o.withDefaults(), client: newOperatorClient()}
	t.Cleanup(e.client.CloseIdleConnections)
	e.testCluster = shared.pools[e.options.Flavour].Borrow(t)
	e.subject = e.options.Subject.in(e.testCluster)
	e.audit = &audit{e.scope, e.testCluster, e.subject}
	name := strings.NewReplacer("/", "_", " ", "_").Replace(t.Name())
	e.files = paths.Dir(filepath.Join(shared.Dir, "tests", name))
	e.linkKubeconfigs()
	if e.isHosted() {
		e.awaitGuestKubeconfig(soon)
		e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.OperatorLogLevel = opv1.TraceAll })
	}
	credentials := e.options.Cloud.Credentials
	e.secrets = []string{credentials.Password, credentials.ApplicationCredentialSecret}
	e.openStack = startOpenStack(e.scope, e.options.Cloud, e.options.Faults)
	e.setConfig("")
	if !o.NoCredentials {
		e.createCloudConfig()
		e.setClouds(e.cloud.CloudsYAML(e.options.Clouds))
	}
	if o.Before != nil {
		o.Before(e)
	}
	e.began = e.mark()
	t.Cleanup(e.finish)
	if !o.Idle {
		e.startOperator()
	}
	return e
}

func (o options) withDefaults() options {
	o.Flavour = cmp.Or(o.Flavour, flavour.Standalone)
	if o.Subject.Name == "" {
		o.Subject = manila()
	}
	o.PollInterval = max(0, cmp.Or(o.PollInterval, 300*time.Millisecond))
	if o.Types == nil && len(o.Cloud.ShareTypes) == 0 {
		o.Types = []string{"default"}
	}
	for _, name := range o.Types {
		o.Cloud.ShareTypes = append(o.Cloud.ShareTypes, simulator.ShareType{Name: name})
	}
	o.Cloud.Credentials.Password = "leaked-password-5f1c"
	o.Cloud.Credentials.ApplicationCredentialSecret = "leaked-application-secret-9e77"
	return o
}

// linkKubeconfigs links the kubeconfigs that the cluster writes.
func (e *env) linkKubeconfigs() {
	e.t.Helper()
	operator := e.subject.Name
	for _, path := range []func(paths.Dir) string{
		func(d paths.Dir) string { return d.Kubeconfig(operator) },
		func(d paths.Dir) string { return filepath.Dir(d.GuestKubeconfig(operator)) },
	} {
		e.must(os.MkdirAll(filepath.Dir(path(e.files)), 0o700))
		e.must(os.Symlink(path(e.podDir), path(e.files)))
	}
}

func (e *env) configPath() string { return e.files.OperatorConfig(e.subject.Name) }

// setConfig writes the operator's configuration file and appends more YAML to its section
// servingInfo. The kernel chooses the port, which address returns.
func (e *env) setConfig(more string) {
	e.t.Helper()
	text := "apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\n" +
		"servingInfo:\n  bindAddress: 127.0.0.1:0\n" + more
	e.must(paths.WriteFile(e.configPath(), []byte(text)))
}

// setClouds writes clouds.yaml, and the CA of the cloud, into the credentials Secrets.
func (e *env) setClouds(text []byte) {
	e.t.Helper()
	data := map[string][]byte{"clouds.yaml": text}
	if len(e.ca) > 0 && !e.options.NoCA && !e.options.CAInConfig {
		data["cacert"] = e.ca
	}
	e.setCredentials(data)
}

// setCredentials writes the credentials Secrets. On HyperShift it first writes those of the
// management cluster, of which the guest cluster has copies.
func (e *env) setCredentials(data map[string][]byte) {
	e.t.Helper()
	for _, c := range e.subject.Credentials {
		if e.isHosted() {
			e.must(e.management.putSecret(e.ctx(), hostedNamespace, c.Name, data))
		}
		e.putSecret(c.Namespace, c.Name, data)
	}
}

// putSecret creates or replaces a Secret of the guest cluster.
func (e *env) putSecret(namespace, name string, data map[string][]byte) {
	e.t.Helper()
	e.must(e.guest.putSecret(e.ctx(), namespace, name, data))
}

// putConfigMap creates or replaces a ConfigMap of the guest cluster.
func (e *env) putConfigMap(namespace, name string, data map[string]string) {
	e.t.Helper()
	e.must(e.guest.putConfigMap(e.ctx(), namespace, name, data))
}

// createCloudConfig creates the ConfigMap about the cloud. Standalone it is the installer's, with
// the copies that cluster-storage-operator makes for the operator. In a hosted control plane it
// contains only a CA.
func (e *env) createCloudConfig() {
	e.t.Helper()
	withCA := len(e.ca) > 0 && !e.options.NoCA
	if e.isHosted() {
		if withCA {
			e.setHostedCA(e.ca)
		}
		return
	}
	data := map[string]string{
		"config": fmt.Sprintf("[Global]\nregion = %s\n", simulator.DefaultRegion),
	}
	if withCA {
		data[caKeyOfCloudProvider] = string(e.ca)
	}
	for _, namespace := range append([]string{openshiftConfig}, e.subject.CloudConfigCopies...) {
		e.putConfigMap(namespace, cloudProviderConfig, data)
	}
}
