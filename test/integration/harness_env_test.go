//go:build integration

package integration

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// options say how a test's surroundings differ from a good cloud with one share type, found by an operator that polls fast.
type options struct {
	// Flavour is standalone unless given.
	Flavour flavour.Flavour
	// Subject is the operator, Manila's unless given.
	Subject subject
	// Cloud is the OpenStack. Its secrets are recognisable whatever is given here.
	Cloud simulator.Config
	// Types are the names of its share types; none has it offer "default", noTypes none at all.
	Types []string
	// Clouds is the clouds.yaml.
	Clouds simulator.Clouds
	// NoCA keeps the CA of a TLS cloud from the cluster and from the operator's files.
	NoCA bool
	// CAInConfig leaves the CA of a TLS cloud out of the credentials: only the ConfigMap about the cloud has it.
	CAInConfig bool
	// NoCredentials leaves out all Secrets and ConfigMaps about the cloud, and the operator's files.
	NoCredentials bool
	// PollInterval is 300 ms unless given, and not passed at all if negative.
	PollInterval time.Duration
	// Args and Env are added to those of the operator's Deployment.
	Args, Env []string
	// Faults are switched on before the operator starts.
	Faults []simulator.Fault
	// Before changes the cluster before the operator starts.
	Before func(*env)
	// Idle does not start the operator: the test calls startOperator.
	Idle bool
}

// noTypes is options.Types of a cloud without share types.
func noTypes() []string { return []string{} }

// env is what a test works with.
type env struct {
	*devcluster
	t       *testing.T
	options options
	// subject is the operator under test.
	subject subject
	cloud   *simulator.Client
	sim     *simulator.Simulator
	// operator is the process that runs, nil if none does.
	operator *process
	// began is the place in the audit log where the test begins.
	began auditMark
	// dir has the operator's files and log; they are removed with the cluster.
	dir, cloudsPath, caPath, caBundlePath, configPath string
	// ca is the cloud's, nil without TLS.
	ca []byte
	// secrets must appear nowhere but in Secrets.
	secrets []string
	// scraper is the token of Prometheus, once it has been asked for.
	scraper string
	// allowed are refusals of the API server that the test provokes; without it none is.
	allowed func(request) bool
}

// newEnv resets the cluster, starts a cloud and the operator, and has all checked at the test's end.
func newEnv(t *testing.T, o options) *env {
	t.Helper()
	e := &env{t: t, options: o.withDefaults()}
	e.borrowCluster()
	e.subject = e.options.Subject.in(e.devcluster)
	e.dir = filepath.Join(shared.dir, "tests", strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()))
	e.cloudsPath = filepath.Join(e.dir, "openstack", "clouds.yaml")
	e.caPath = filepath.Join(e.dir, "openstack", "ca.crt")
	e.caBundlePath = filepath.Join(e.dir, "cloud-ca", "ca-bundle.pem")
	e.configPath = filepath.Join(e.dir, "operator-config", "config.yaml")
	for _, path := range []string{e.cloudsPath, e.caBundlePath, e.configPath} {
		e.must(os.MkdirAll(filepath.Dir(path), 0o700))
	}
	e.must(e.reset(t.Context()))
	if e.flavour == flavour.HyperShift {
		e.awaitGuestKubeconfig()
	}
	e.startCloud()
	e.setConfig("")
	if !o.NoCredentials {
		e.seedCloudConfig()
		e.setClouds(e.cloudsYAML(e.options.Clouds))
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

// borrowCluster waits for a cluster. The test gives it back when all that it put into order at its end is done.
func (e *env) borrowCluster() {
	e.t.Helper()
	asked := time.Now()
	borrowed, err := shared.borrow(e.ctx(), e.options.Flavour)
	e.must(err)
	e.devcluster = borrowed
	began := time.Now()
	e.t.Cleanup(func() {
		e.t.Logf("used %s for %.1f s, after %.1f s of waiting", borrowed.name, time.Since(began).Seconds(), began.Sub(asked).Seconds())
		shared.pools[borrowed.flavour].idle <- borrowed
	})
}

func (o options) withDefaults() options {
	o.Flavour = cmp.Or(o.Flavour, flavour.Standalone)
	if o.Subject.name == "" {
		o.Subject = manila()
	}
	switch {
	case o.PollInterval == 0:
		o.PollInterval = 300 * time.Millisecond
	case o.PollInterval < 0:
		o.PollInterval = 0
	}
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

// must fails the test on an error of the harness.
func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// ctx is the test's context.
func (e *env) ctx() context.Context { return e.t.Context() }

func (e *env) startCloud() {
	e.t.Helper()
	var err error
	e.sim, err = simulator.New(e.options.Cloud)
	e.must(err)
	e.must(e.sim.Start(context.WithoutCancel(e.ctx())))
	e.cloud = e.sim.Client()
	e.secrets = []string{e.options.Cloud.Credentials.Password, e.options.Cloud.Credentials.ApplicationCredentialSecret}
	if e.options.Cloud.TLS {
		e.ca, err = e.cloud.CA(e.ctx())
		e.must(err)
	}
	for _, fault := range e.options.Faults {
		e.fault(fault)
	}
}

// setConfig writes the operator's configuration file, with more YAML for its end. The kernel chooses the port; see address.
func (e *env) setConfig(more string) {
	e.t.Helper()
	text := "apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\nservingInfo:\n  bindAddress: 127.0.0.1:0\n" + more
	e.must(writeFile(e.configPath, []byte(text)))
}

// writeFile replaces a file in one step, as the kubelet does.
func writeFile(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// cloudsYAML returns a clouds.yaml with the credentials that the cloud accepts now.
func (e *env) cloudsYAML(o simulator.Clouds) []byte {
	e.t.Helper()
	text, err := e.cloud.CloudsYAML(e.ctx(), o)
	e.must(err)
	return text
}

// setClouds gives clouds.yaml to the operator and to the credentials Secrets.
func (e *env) setClouds(text []byte) {
	e.t.Helper()
	data := map[string][]byte{"clouds.yaml": text}
	e.must(writeFile(e.cloudsPath, text))
	if len(e.ca) > 0 && !e.options.NoCA && !e.options.CAInConfig {
		e.must(writeFile(e.caPath, e.ca))
		data["cacert"] = e.ca
	}
	for _, name := range e.subject.credentials {
		if e.flavour == flavour.HyperShift { // first, as the hosted cluster's is a copy
			e.must(e.management.putSecret(e.ctx(), hostedNamespace, name[1], data))
		}
		e.putSecret(name[0], name[1], data)
	}
}

// retryLogin changes clouds.yaml where the operator reads it, but not what it means, if the operator backs off after f.
func (e *env) retryLogin(f failure) {
	e.t.Helper()
	if f.reason != refusedReason {
		return
	}
	text, err := os.ReadFile(e.cloudsPath)
	e.must(err)
	e.must(writeFile(e.cloudsPath, append(text, "# touched\n"...)))
}

// putSecret creates or replaces a Secret.
func (e *env) putSecret(namespace, name string, data map[string][]byte) {
	e.t.Helper()
	e.must(e.side.putSecret(e.ctx(), namespace, name, data))
}

func (s *side) putSecret(ctx context.Context, namespace, name string, data map[string][]byte) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	_, err := s.kube.CoreV1().Secrets(namespace).Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = s.kube.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	}
	return err
}

// putConfigMap creates or replaces a ConfigMap.
func (e *env) putConfigMap(namespace, name string, data map[string]string) {
	e.t.Helper()
	e.must(e.side.putConfigMap(e.ctx(), namespace, name, data))
}

func (s *side) putConfigMap(ctx context.Context, namespace, name string, data map[string]string) error {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	_, err := s.kube.CoreV1().ConfigMaps(namespace).Update(ctx, config, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = s.kube.CoreV1().ConfigMaps(namespace).Create(ctx, config, metav1.CreateOptions{})
	}
	return err
}

// seedCloudConfig makes the ConfigMap about the cloud: the installer's, with the copies that cluster-storage-operator keeps of it
// for the operator, or that of a hosted control plane, which has a CA only.
func (e *env) seedCloudConfig() {
	e.t.Helper()
	withCA := len(e.ca) > 0 && !e.options.NoCA
	if e.flavour == flavour.HyperShift {
		if withCA {
			e.setHostedCA(e.ca)
		}
		return
	}
	data := map[string]string{"config": fmt.Sprintf("[Global]\nregion = %s\n", simulator.DefaultRegion)}
	if withCA {
		data["ca-bundle.pem"] = string(e.ca)
	}
	for _, namespace := range append([]string{"openshift-config"}, e.subject.cloudConfigCopies...) {
		e.putConfigMap(namespace, "cloud-provider-config", data)
	}
}

// fault switches a fault on and returns the function that switches it off.
func (e *env) fault(f simulator.Fault) func() {
	e.t.Helper()
	set, err := e.cloud.SetFault(e.ctx(), f)
	e.must(err)
	return func() {
		e.t.Helper()
		e.must(e.cloud.ClearFaults(e.ctx(), set.ID))
	}
}

// counters are the cloud's.
func (e *env) counters() simulator.Counters {
	e.t.Helper()
	counters, err := e.cloud.Counters(e.ctx())
	e.must(err)
	return counters
}

// addType adds a share type to the cloud.
func (e *env) addType(name string) {
	e.t.Helper()
	_, err := e.cloud.AddShareType(e.ctx(), simulator.ShareType{Name: name})
	e.must(err)
}
