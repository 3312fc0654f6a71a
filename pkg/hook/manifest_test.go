package hook_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const args = `"--v=${LOG_LEVEL}", "--min=${TLS_MIN_VERSION}", "--ciphers=${TLS_CIPHER_SUITES}"`

// workload returns a manifest with arguments of a container.
func workload(kind, args string) string {
	return `apiVersion: apps/v1
kind: ` + kind + `
metadata: {name: other}
spec:
  template:
    spec:
      containers:
      - name: c
        args: [` + args + `]
`
}

// filled runs the hooks like library-go.
func filled(t *testing.T, clusterID string, spec *opv1.OperatorSpec, manifest string) (string,
	error,
) {
	t.Helper()
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	infrastructure.Status.InfrastructureName = clusterID
	f := clustertest.New(t, clustertest.Seed{Config: []runtime.Object{infrastructure}})
	f.Start(t)
	text := []byte(manifest)
	for _, fill := range hook.Manifest(f.Cluster, configv1.LeaderElection{}) {
		var err error
		if text, err = fill(spec, text); err != nil {
			return "", err
		}
	}
	return string(text), nil
}

func TestManifestFillsPlaceholders(t *testing.T) {
	t.Parallel()
	given := workload("Deployment",
		args+`, "--cluster=${CLUSTER_ID}", "--lease=${LEADER_ELECTION_LEASE_DURATION}"`)
	got, err := filled(t, "cluster-1", tlsSettings(), given)
	assert.NilError(t, err)
	want := workload("Deployment", `"--v=4", "--min=VersionTLS12", "--ciphers=TLS_A,TLS_B", `+
		`"--cluster=cluster-1", "--lease=137s"`)
	assert.Check(t, is.DeepEqual(want, got), "manifest")
	for _, tt := range []struct{ clusterID, manifest, want string }{
		{"cluster-1", given, "TLS_CIPHER_SUITES, TLS_MIN_VERSION"},
		{"", "kind: Deployment", "status.infrastructureName of Infrastructure cluster is missing"},
		{"x\"\n  y: \"", "kind: Deployment", "status.infrastructureName of Infrastructure cluster is"},
		{"cluster-1", "image: ${X_IMAGE}", "X_IMAGE"},
		{"cluster-1", "spec: {replicas: x}", "decoding its manifest"},
	} {
		_, err := filled(t, tt.clusterID, &opv1.OperatorSpec{}, tt.manifest)
		assert.Check(t, is.ErrorContains(err, tt.want))
	}
}

func tlsSettings() *opv1.OperatorSpec {
	spec := &opv1.OperatorSpec{LogLevel: opv1.Debug}
	spec.ObservedConfig.Raw = []byte(`{"targetcsiconfig":{"servingInfo":{
		"minTLSVersion":"VersionTLS12","cipherSuites":["TLS_A","TLS_B"]}}}`)
	return spec
}

func TestAlternativeReplacesWorkloads(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		manifest          []byte
		daemonSet, failed string
	}{
		{nil, "own", "<nil>"},
		{
			[]byte(workload("DaemonSet", args)),
			"other --v=4 --min=VersionTLS12 --ciphers=TLS_A,TLS_B", "<nil>",
		},
		{[]byte("a: ${CLUSTER_ID}"), "own", "there is no value for the placeholders CLUSTER_ID"},
		{[]byte("a: b"), "own", "decoding its manifest"},
	} {
		alternative := hook.Alternative{Manifest: func() []byte { return test.manifest }}
		got, err := alternative.Deployment()(tlsSettings(), []byte("own"))
		assert.NilError(t, err)
		assert.Check(t, is.Equal(string(got), cmp.Or(string(test.manifest), "own")))
		daemonSet := &appsv1.DaemonSet{}
		daemonSet.Name = "own"
		err = alternative.DaemonSet().DaemonSet(tlsSettings(), daemonSet)
		assert.Check(t, is.Contains(fmt.Sprint(err), test.failed))
		words := []string{daemonSet.Name}
		for _, container := range daemonSet.Spec.Template.Spec.Containers {
			words = append(words, container.Args...)
		}
		assert.Check(t, is.Equal(strings.Join(words, " "), test.daemonSet), "name and arguments")
	}
}
