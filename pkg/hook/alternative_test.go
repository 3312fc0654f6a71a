package hook_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/hook"
)

func alternative(use bool, kind, args string) hook.Alternative {
	return hook.Alternative{
		Manifest: func() []byte {
			if !use {
				return nil
			}
			return []byte(`apiVersion: apps/v1
kind: ` + kind + `
metadata: {name: other}
spec:
  template:
    spec:
      containers:
      - name: c
        args: [` + args + `]
`)
		},
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
	const args = `"--v=${LOG_LEVEL}", "--min=${TLS_MIN_VERSION}", "--ciphers=${TLS_CIPHER_SUITES}"`
	for _, test := range []struct {
		use               bool
		args, deployment  string
		daemonSet, failed string
	}{
		{false, args, "own", "own", ""},
		{true, args, "name: other", "other --v=4 --min=VersionTLS12 --ciphers=TLS_A,TLS_B", ""},
		{true, "${CLUSTER_ID}", "", "own", "there is no value for the placeholders CLUSTER_ID"},
		{true, "{a: b}", "", "own", "decoding its manifest"},
	} {
		got, err := alternative(test.use, "Deployment", test.args).
			Deployment()(tlsSettings(), []byte("own"))
		assert.NilError(t, err)
		assert.Check(t, is.Contains(string(got), test.deployment))
		daemonSet := &appsv1.DaemonSet{}
		daemonSet.Name = "own"
		err = alternative(test.use, "DaemonSet", test.args).DaemonSet().
			DaemonSet(tlsSettings(), daemonSet)
		assert.Check(t, err == nil && test.failed == "" || is.ErrorContains(err, test.failed)().Success())
		words := []string{daemonSet.Name}
		for _, container := range daemonSet.Spec.Template.Spec.Containers {
			words = append(words, container.Args...)
		}
		assert.Check(t, is.Equal(strings.Join(words, " "), test.daemonSet), "name and arguments")
	}
}
