package sidecar

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

func TestSidecarAnnouncesItselfWhenTheDriverIsReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.answers.notReady = 1
	f.run()
	got := f.awaitAnnounced()
	want := &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{
			Name: wire.ObjectName("pod-a", driverName), Namespace: "csi",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: "pod-a", UID: "uid-a"},
			},
		},
		Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
			Name: driverName, NodeID: "worker-1", EndPoint: got.Spec.Driver.EndPoint,
		}},
	}
	assert.Check(t, is.DeepEqual(want, got, cmpopts.IgnoreTypes(metav1.TypeMeta{}),
		cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Annotations", "UID")), "CSIAddonsNode")
	for key, prefix := range map[string]string{
		v1alpha1.CreatedByPodUIDAnnotation: "uid-a", v1alpha1.LastUpdatedAtAnnotation: "20",
		v1alpha1.CertificatePinAnnotation: "sha256:",
	} {
		assert.Check(t, strings.HasPrefix(got.Annotations[key], prefix), "%s: %v", key, got.Annotations)
	}
	assert.Check(t, f.answers.probes.Load() >= 2, "the driver was not probed until it was ready")
}

func TestSidecarRepairsTheAnnouncement(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]v1alpha1.CSIAddonsNodeDriver{
		"address":          {Name: driverName, NodeID: "worker-1", EndPoint: "pod://evil.csi:1"},
		"immutable node":   {Name: driverName, NodeID: "worker-2", EndPoint: "pod://pod-a.csi:1"},
		"immutable driver": {Name: "other", NodeID: "worker-1", EndPoint: "pod://pod-a.csi:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.create(other)
			f.run()
			eventually(t, "the CSIAddonsNode describes the sidecar", func(ctx context.Context) bool {
				node := f.announced(ctx)
				if node == nil {
					return false
				}
				endpoint, err := wire.ParseEndpoint(node.Spec.Driver.EndPoint)
				return err == nil && endpoint.Pod == "pod-a" && endpoint.Port > 1 &&
					node.Spec.Driver.NodeID == "worker-1" && node.Spec.Driver.Name == driverName &&
					node.Annotations[v1alpha1.CertificatePinAnnotation] != "sha256:evil" &&
					len(node.OwnerReferences) == 1
			})
		})
	}
}

func TestSidecarSaysThatAFinalizerKeepsTheAnnouncement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(v1alpha1.CSIAddonsNodeDriver{Name: driverName, NodeID: "worker-1"},
		func(node *unstructured.Unstructured) {
			node.SetDeletionTimestamp(ptr.To(metav1.Now()))
			node.SetFinalizers([]string{"example.com/forever"})
		})
	err := f.announcer().apply(t.Context())
	assert.Check(t, is.ErrorContains(err, "example.com/forever"))
}

// announcer returns an announcer that does not run yet.
func (f *fixture) announcer() *announcer {
	return newAnnouncer(&Program{
		Settings: &Settings{
			Pod: Pod{Name: "pod-a", Namespace: "csi", UID: "uid-a", Node: "worker-1"},
		},
		Dynamic: f.dynamic, Metrics: f.metrics,
	}, driverName, &net.TCPAddr{}, "")
}

// create creates the CSIAddonsNode of the sidecar with other content.
func (f *fixture) create(other v1alpha1.CSIAddonsNodeDriver,
	change ...func(*unstructured.Unstructured),
) {
	f.Helper()
	node := f.announcer().want
	node.SetOwnerReferences(nil)
	node.SetAnnotations(map[string]string{v1alpha1.CertificatePinAnnotation: "sha256:evil"})
	node.Object["spec"] = map[string]any{"driver": map[string]any{
		"name": other.Name, "nodeID": other.NodeID, "endpoint": other.EndPoint,
	}}
	for _, apply := range change {
		apply(node)
	}
	_, err := f.dynamic.Resource(resource()).Namespace("csi").Create(f.Context(), node,
		metav1.CreateOptions{})
	assert.NilError(f, err)
}

func TestSidecarUsesAFreePortIfAnotherProcessHasThePort(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", ":0")
	assert.NilError(t, err)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	f := newFixture(t)
	f.run("--controller-port=" + strconv.Itoa(port))
	published, err := wire.ParseEndpoint(f.awaitAnnounced().Spec.Driver.EndPoint)
	assert.Check(t, err == nil && int(published.Port) != port, "it publishes %v, %v", published, err)
	assert.Check(t, is.Equal(f.caller()(controllerToken), codes.OK))
}

func TestSidecarDoesNotFightForTheAnnouncement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time of the bubble passes without waiting
		f := newFixture(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.announcer().run(ctx)
		client := f.dynamic.Resource(resource()).Namespace("csi")
		var pauses []time.Duration // between a deletion and the next creation
		for range eventBurst {
			synctest.Wait()
			deleted := time.Now()
			err := client.Delete(ctx, wire.ObjectName("pod-a", driverName), metav1.DeleteOptions{})
			assert.NilError(t, err)
			for f.announced(ctx) == nil {
				synctest.Wait()
				<-time.After(time.Second)
			}
			pauses = append(pauses, time.Since(deleted).Round(time.Minute))
		}
		assert.Check(t, pauses[0] == 0 && pauses[eventBurst-1] == eventInterval, "%v", pauses)
	})
}

func TestDefaultsAreThoseOfTheExistingSystem(t *testing.T) {
	t.Parallel()
	got, err := loadSettings(t, podFlags()...)
	assert.NilError(t, err)
	want := &Settings{
		DriverAddress: "/run/csi-addons/socket", ManilaName: "manila.csi.openstack.org",
		StagingPath: "/var/lib/kubelet/plugins/kubernetes.io/csi/",
		Timeout:     3 * time.Minute, Port: 9070,
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
		ManilaName: "manila.csi.openstack.org",
		Pod:        Pod{Name: "pod-a", Namespace: "csi", UID: "uid-a", Node: "worker-1"},
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
	settings, err := loadSettings(t, podFlags("--manila-node-addresses=10.0.0.5,fd00::5",
		"--driver-name=nfs.manila.csi.openstack.org")...)
	assert.NilError(t, err)
	client, err := connect(settings)
	assert.NilError(t, err)
	defer func() { _ = client.Close() }()
	got, err := client.Describe(t.Context())
	assert.NilError(t, err)
	want := driver.Description{Name: "nfs.manila.csi.openstack.org", Node: true}
	assert.Check(t, is.DeepEqual(want, got))
	answer, err := client.Fence.GetFenceClients(t.Context(), &fence.GetFenceClientsRequest{})
	assert.Check(t, err == nil && answer.GetClients()[0].GetId() == "worker-1" &&
		answer.GetClients()[0].GetAddresses()[1].GetCidr() == "fd00::5/128",
		"the clients are %v, %v", answer, err)
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
				end, _ := ctx.Deadline()
				assert.Check(t, is.Equal(time.Until(end), want), "the operation may take, for %v", caller)
				return nil, nil
			}
			_, err := (&Settings{Timeout: time.Minute}).limit(ctx, nil, nil, check)
			assert.Check(t, err)
			cancel()
		}
	})
}
