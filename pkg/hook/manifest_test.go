package hook_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	for _, fill := range hook.Manifest(f.Cluster) {
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
		{"", "a: ${CLUSTER_ID}", "status.infrastructureName of Infrastructure cluster is missing"},
		{"x\"\n  y: \"", "a: ${CLUSTER_ID}", "status.infrastructureName of Infrastructure cluster is"},
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

func TestPatchChangesWorkloads(t *testing.T) {
	t.Parallel()
	const container = `spec: {template: {spec: {containers: [{name: c, args: [%s]}]}}}`
	c := clustertest.New(t, clustertest.Seed{}).Cluster
	for _, test := range []struct{ patch, want, failed string }{
		{"", "own=", "<nil>"},
		{
			fmt.Sprintf(container, args), "c=--v=4,--min=VersionTLS12,--ciphers=TLS_A,TLS_B own=", "<nil>",
		},
		{"spec: {template: {spec: {containers: [{name: own, args: [a]}]}}}", "own=a", "<nil>"},
		{fmt.Sprintf(container, `"${X_IMAGE}"`), "own=", "no value for the placeholders X_IMAGE"},
		{fmt.Sprintf(container, "{}"), "own=", "decoding its manifest"},
		{"a", "own=", "patching the workload"},
		{"a: ${CLUSTER_ID}", "own=", `"cluster" not found`},
	} {
		h := hook.Patch(c, func() []byte {
			if test.patch == "" {
				return nil
			}
			return []byte(test.patch)
		}, nil)
		template := corev1.PodTemplateSpec{}
		template.Spec.Containers = []corev1.Container{{Name: "own"}}
		deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}}
		daemonSet := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: template}}
		for _, failed := range []error{
			h.Deployment(tlsSettings(), deployment), h.DaemonSet(tlsSettings(), daemonSet),
		} {
			assert.Check(t, is.Contains(fmt.Sprint(failed), test.failed), test.patch)
		}
		var words []string
		for _, c := range daemonSet.Spec.Template.Spec.Containers {
			words = append(words, c.Name+"="+strings.Join(c.Args, ","))
		}
		slices.Sort(words)
		assert.Check(t, is.Equal(strings.Join(words, " "), test.want), test.patch)
		assert.Check(t, is.DeepEqual(deployment.Spec.Template, daemonSet.Spec.Template))
	}
}
