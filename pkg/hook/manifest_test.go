package hook_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const manifestWithPlaceholders = `apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  template:
    spec:
      containers:
      - name: c
        args: ["--cluster=${CLUSTER_ID}", "--v=${LOG_LEVEL}", "--min=${TLS_MIN_VERSION}",
          "--ciphers=${TLS_CIPHER_SUITES}", "--lease=${LEADER_ELECTION_LEASE_DURATION}"]
`

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
	got, err := filled(t, "cluster-1", tlsSettings(), manifestWithPlaceholders)
	assert.NilError(t, err)
	want := strings.NewReplacer("${CLUSTER_ID}", "cluster-1", "${LOG_LEVEL}", "4",
		"${TLS_MIN_VERSION}", "VersionTLS12",
		"${TLS_CIPHER_SUITES}", "TLS_A,TLS_B", "${LEADER_ELECTION_LEASE_DURATION}", "137s").
		Replace(manifestWithPlaceholders)
	assert.Check(t, is.DeepEqual(want, got), "manifest")
	for _, tt := range []struct{ clusterID, manifest, want string }{
		{"cluster-1", manifestWithPlaceholders, "TLS_CIPHER_SUITES, TLS_MIN_VERSION"},
		{"", "kind: Deployment", "status.infrastructureName of Infrastructure cluster is missing"},
		{"x\"\n  y: \"", "kind: Deployment", "status.infrastructureName of Infrastructure cluster is"},
		{"cluster-1", "image: ${X_IMAGE}", "X_IMAGE"},
		{"cluster-1", "spec: {replicas: x}", "decoding its manifest"},
	} {
		_, err := filled(t, tt.clusterID, &opv1.OperatorSpec{}, tt.manifest)
		assert.Check(t, is.ErrorContains(err, tt.want))
	}
}
