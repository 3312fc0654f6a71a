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

func TestAlternativeReplacesTheManifestOfADeployment(t *testing.T) {
	t.Parallel()
	for use, want := range map[bool]string{false: "own", true: "name: other"} {
		got, err := alternative(use, "Deployment", "").Deployment()(tlsSettings(), []byte("own"))
		assert.Check(t, err == nil && strings.Contains(string(got), want),
			"used is %v: the manifest is %q (%v), want %q", use, got, err, want)
	}
}

func TestAlternativeReplacesADaemonSet(t *testing.T) {
	t.Parallel()
	const args = `"--v=${LOG_LEVEL}", "--min=${TLS_MIN_VERSION}", "--ciphers=${TLS_CIPHER_SUITES}"`
	for use, want := range map[bool][]string{
		false: {"own"},
		true:  {"other", "--v=4", "--min=VersionTLS12", "--ciphers=TLS_A,TLS_B"},
	} {
		daemonSet := &appsv1.DaemonSet{}
		daemonSet.Name = "own"
		change := alternative(use, "DaemonSet", args).DaemonSet().DaemonSet
		assert.NilError(t, change(tlsSettings(), daemonSet))
		got := []string{daemonSet.Name}
		for _, container := range daemonSet.Spec.Template.Spec.Containers {
			got = append(got, container.Args...)
		}
		assert.Check(t, is.DeepEqual(want, got), "used is %v: name and arguments", use)
	}
}

func TestInvalidAlternativeLeavesTheDaemonSet(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"${CLUSTER_ID}": "there is no value for the placeholders CLUSTER_ID",
		"{a: b}":        "decoding its manifest",
	} {
		daemonSet := &appsv1.DaemonSet{}
		daemonSet.Name = "own"
		err := alternative(true, "DaemonSet", args).DaemonSet().DaemonSet(tlsSettings(), daemonSet)
		if err == nil || !strings.Contains(err.Error(), want) || daemonSet.Name != "own" {
			t.Errorf("%s: the error is %v for DaemonSet %q, want %q", args, err, daemonSet.Name, want)
		}
	}
}
