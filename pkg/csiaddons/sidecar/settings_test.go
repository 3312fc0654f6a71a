package sidecar

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestDefaultsAreThoseOfTheExistingSystem(t *testing.T) {
	t.Parallel()
	got, err := loadSettings(t, podFlags()...)
	assert.NilError(t, err)
	want := &Settings{
		DriverAddress: "/run/csi-addons/socket",
		StagingPath:   "/var/lib/kubelet/plugins/kubernetes.io/csi/",
		Timeout:       3 * time.Minute, Port: 9070,
		Pod: Pod{Name: "pod-a", Namespace: "csi", UID: "uid-a", Node: "worker-1"},
		Election: Election{
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 5 * time.Second,
		},
		Access: Access{Enabled: true, Audience: "csiaddons.openshift.io/uid-a"},
		TLS:    &tls.Config{MinVersion: tls.VersionTLS12},
	}
	assert.Check(t, is.DeepEqual(want, got, cmpopts.IgnoreUnexported(tls.Config{})), "settings")
}

// The command also accepts --v, --vmodule and --version.
func TestEveryFlagOfTheExistingSystemIsAccepted(t *testing.T) {
	t.Parallel()
	got, err := loadSettings(t, podFlags("--csi-addons-address=unix:///csi/s", "--controller-port=1",
		"--controller-ip=10.0.0.1", "--stagingpath=/staging", "--timeout=1m", "--enable-auth=false",
		"--leader-election-namespace=leases", "--leader-election-lease-duration=30s",
		"--leader-election-renew-deadline=20s", "--leader-election-retry-period=2s",
		"--enable-volume-condition=true", "--volume-condition-interval=1h",
		"--volume-condition-recorders=a", "--tls-min-version=VersionTLS13",
		"--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		"--tls-curve-preferences=X25519,CurveP256,24,X25519MLKEM768", "--automaxprocs", "--zap-devel",
		"--zap-encoder=json", "--zap-log-level=5", "--zap-stacktrace-level=error",
		"--zap-time-encoding=iso8601", "--add_dir_header", "--alsologtostderr=true",
		"--alsologtostderrthreshold=2", "--legacy_stderr_threshold_behavior=false",
		"--log_backtrace_at=a.go:1", "--log_dir", "/a", "--log_file", "/b", "--log_file_max_size=1800",
		"--logtostderr", "--one_output", "--skip_headers", "--skip_log_headers",
		"--stderrthreshold=2")...)
	assert.NilError(t, err)
	want := &Settings{
		DriverAddress: "unix:///csi/s", StagingPath: "/staging", Timeout: time.Minute, Port: 1,
		Pod: Pod{Name: "pod-a", Namespace: "csi", UID: "uid-a", Node: "worker-1"},
		Election: Election{
			LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 2 * time.Second,
		},
		Access: Access{Audience: "csiaddons.openshift.io/uid-a"},
		TLS: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
			CurvePreferences: []tls.CurveID{
				tls.X25519, tls.CurveP256, tls.CurveP384, tls.X25519MLKEM768,
			},
		},
	}
	assert.Check(t, is.DeepEqual(want, got, cmpopts.IgnoreUnexported(tls.Config{})), "settings")
}

func TestErrorNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := loadSettings(t, "--timeout=0s", "--tls-min-version=1")
	_, errOfCurve := loadSettings(t, podFlags("--tls-curve-preferences=secp256r1")...)
	assert.Assert(t, err != nil, "there is no error")
	if errOfCurve == nil || !strings.Contains(errOfCurve.Error(), `"secp256r1" is not the name`) {
		t.Errorf("for an unknown curve the error is %v", errOfCurve)
	}
	for _, want := range []string{
		"--node-id is missing", "--pod is missing", "--namespace is missing", "--pod-uid is missing",
		"--timeout is 0s", "--tls-min-version",
	} {
		assert.Check(t, strings.Contains(err.Error(), want),
			"the error does not contain %q: %v", want, err)
	}
}
