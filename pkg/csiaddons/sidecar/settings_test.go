package sidecar

import (
	"context"
	"crypto/tls"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
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
	_, err := loadSettings(t, podFlags("--tls-curve-preferences=secp256r1")...)
	assert.Check(t, is.ErrorContains(err, `"secp256r1" is not the name`))
	_, err = loadSettings(t, "--timeout=0s", "--tls-min-version=1")
	for _, want := range []string{
		"--node-id is missing", "--pod is missing", "--namespace is missing", "--pod-uid is missing",
		"--timeout is 0s", "--tls-min-version",
	} {
		assert.Check(t, is.ErrorContains(err, want))
	}
}

func TestSidecarServesAddressesOfManilasNodes(t *testing.T) {
	t.Parallel()
	settings, err := loadSettings(t, podFlags("--manila-node-addresses=10.0.0.5,fd00::5")...)
	assert.NilError(t, err)
	client, err := connect(settings)
	assert.NilError(t, err)
	defer func() { _ = client.Close() }()
	got, err := client.Describe(t.Context())
	assert.NilError(t, err)
	want := driver.Description{Name: "manila.csi.openstack.org", Node: true}
	assert.Check(t, is.DeepEqual(want, got))
	answer, err := client.Fence.GetFenceClients(t.Context(), &fence.GetFenceClientsRequest{})
	if err != nil || answer.GetClients()[0].GetId() != "worker-1" ||
		answer.GetClients()[0].GetAddresses()[1].GetCidr() != "fd00::5/128" {
		t.Errorf("the clients are %v, %v", answer, err)
	}
}

func TestDeadlineOfTheCallerReplacesTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time of the bubble stands still
		for caller, want := range map[time.Duration]time.Duration{
			0:                time.Minute, // none
			30 * time.Second: 30 * time.Second,
			30 * time.Minute: 30 * time.Minute,
			5 * time.Hour:    maxDeadline,
		} {
			ctx, cancel := t.Context(), func() {}
			if caller > 0 {
				ctx, cancel = context.WithTimeout(ctx, caller)
			}
			check := func(ctx context.Context, _ any) (any, error) {
				if end, _ := ctx.Deadline(); time.Until(end) != want {
					t.Errorf("%v: the operation may take %v, want %v", caller, time.Until(end), want)
				}
				return nil, nil
			}
			if _, err := (&Settings{Timeout: time.Minute}).limit(ctx, nil, nil, check); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
}
