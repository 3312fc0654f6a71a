package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/lease"
)

func TestChangedFileEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, known := range map[string][]byte{
		"content as read": []byte("old"), "content of now": nil, "file that is missing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.yaml")
			if name != "file that is missing" {
				assert.NilError(t, os.WriteFile(file, []byte("old"), 0o600))
			}
			server := newAPIServer(t)
			o := server.options()
			o.RestartOn = map[string][]byte{file: known}
			err := Run(bounded(t), o, func(ctx context.Context, p Process) error {
				assert.Check(t, p.Config.Host == o.Config.Host && p.Events != nil && p.Clock != nil,
					"given %+v", p)
				err := os.WriteFile(file, []byte("new"), 0o600)
				<-ctx.Done()
				return err
			})
			assert.Check(t, err)
			assert.Check(t, is.DeepEqual([]string{"lease taken", "lease released"}, server.notes()), "order")
		})
	}
}

func TestRunReturnsFaultsBeforeWorkStarts(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"watching file": func(o *Options) { o.RestartOn = map[string][]byte{"..": nil} },
		"servingInfo.bindAddress": func(o *Options) {
			o.Operator.ServingInfo.BindAddress = "127.0.0.1:none"
		},
		"servingInfo.minTLSVersion": func(o *Options) {
			o.Operator.ServingInfo.MinTLSVersion = "VersionTLS9"
		},
		"servingInfo.cipherSuites": func(o *Options) {
			o.Operator.ServingInfo.CipherSuites = []string{"ROT13"}
		},
		"preparing leader election: ": func(o *Options) {
			o.Operator.LeaderElection.RenewDeadline.Duration = time.Hour
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			o := newAPIServer(t).options()
			change(&o)
			err := Run(bounded(t), o, func(context.Context, Process) error {
				t.Error("works all the same")
				return nil
			})
			assert.Check(t, is.ErrorContains(err, want))
		})
	}
}

func TestWorkReturnsBeforeTheLeaseIsReleased(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	err := lead(ctx, server.options(), func(work context.Context, _ Options) error {
		server.note("work")
		cancel()
		<-work.Done()
		// Work stops more slowly than the Lease is renewed.
		<-time.After(100 * time.Millisecond)
		server.note("work ended")
		return nil
	})
	assert.Check(t, err)
	assert.Check(t, is.DeepEqual([]string{"lease taken", "work", "work ended", "lease released"},
		server.notes()))
}

// A process that was frozen is not told that another one leads.
func TestWithoutTheLeaseNothingIsWritten(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*apiServer){
		"expired": func(s *apiServer) { s.down = true },
		"taken by another process": func(s *apiServer) {
			s.lease = s.lease.DeepCopy()
			s.lease.ResourceVersion += "0"
			s.lease.Spec.HolderIdentity = ptr.To("another")
			s.lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPIServer(t)
			server.infrastructure = infrastructure(configv1.HighlyAvailableTopologyMode)
			o := server.options()
			o.Operator.LeaderElection.LeaseDuration.Duration = 3 * time.Second
			o.Operator.LeaderElection.RenewDeadline.Duration = 2 * time.Second
			err := lead(bounded(t), o, func(ctx context.Context, o Options) error {
				kube, err := kubernetes.NewForConfig(o.Config)
				assert.NilError(t, err)
				write := func() error {
					_, err := kube.CoreV1().Events("ns").Create(t.Context(), &corev1.Event{},
						metav1.CreateOptions{})
					return err
				}
				assert.Check(t, write(), "writing with the lease")
				server.mu.Lock()
				lose(server)
				server.mu.Unlock()
				until(t, "refused writes", func() bool { return errors.Is(write(), lease.ErrExpired) })
				assert.Check(t, is.ErrorIs(write(), lease.ErrExpired))
				err = kube.CoreV1().RESTClient().Get().
					AbsPath("/apis/config.openshift.io/v1/infrastructures/cluster").Do(t.Context()).Error()
				assert.Check(t, err, "reading without the lease")
				<-ctx.Done() // the first refused write ends it
				return nil
			})
			assert.Check(t, is.ErrorIs(err, errLeaseLost))
		})
	}
}

func TestProcessThatNeverLedStopsWithoutError(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	now := metav1.NowMicro()
	server.lease = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "test-lock", ResourceVersion: "1"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("another"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now,
			RenewTime: &now,
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := lead(ctx, server.options(), func(context.Context, Options) error {
		t.Error("works while another leads")
		return nil
	})
	assert.Check(t, err)
	assert.Check(t, is.Len(server.notes(), 0), "the lease of another")
}

func TestErrorOfWorkIsReturned(t *testing.T) {
	t.Parallel()
	for disabled, want := range map[bool][]string{
		false: {"lease taken", "lease released"}, true: nil,
	} {
		server := newAPIServer(t)
		o := server.options()
		o.Operator.LeaderElection.Disable = disabled
		failure := errors.New("cannot work")
		err := lead(bounded(t), o, func(context.Context, Options) error { return failure })
		assert.Check(t, is.ErrorIs(err, failure))
		assert.Check(t, is.DeepEqual(want, server.notes()), "without leader election: %t", disabled)
	}
}

// The guest cluster must not choose the durations.
func TestLeaderElectionDurationsDependOnTheTopology(t *testing.T) {
	t.Parallel()
	single := infrastructure(configv1.SingleReplicaTopologyMode)
	several := [3]time.Duration{137, 107, 26}
	for name, tt := range map[string]struct {
		infrastructure string
		change         func(*Options)
		reads          bool
		want           [3]time.Duration // in seconds
	}{
		"replicas, or unknown": {"", func(*Options) {}, true, several},
		"single replica":       {single, func(*Options) {}, true, [3]time.Duration{270, 240, 60}},
		"hosted": {
			single, func(o *Options) { o.Served = rest.CopyConfig(o.Config) }, false, several,
		},
		"given": {single, func(o *Options) {
			o.Operator.LeaderElection.LeaseDuration.Duration = 200 * time.Second
		}, false, [3]time.Duration{200, 107, 26}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPIServer(t)
			server.infrastructure = tt.infrastructure
			o := server.options()
			o.Operator.LeaderElection = configv1.LeaderElection{}
			tt.change(&o)
			got, err := o.election(t.Context())
			assert.NilError(t, err)
			assert.Check(t, is.DeepEqual(tt.want, [3]time.Duration{
				got.LeaseDuration / time.Second, got.RenewDeadline / time.Second,
				got.RetryPeriod / time.Second,
			}), "durations")
			assert.Check(t, is.Equal(len(server.received()) > 0, tt.reads), "reads the topology")
			assert.Check(t, is.Equal(got.Lock.Describe(), "ns/test-lock"))
			assert.Check(t, got.ReleaseOnCancel)
		})
	}
}

func TestWorkThatDoesNotReturnIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		close(started)
		err := outcome(t.Context(), started, make(chan error))
		assert.Check(t, is.Error(err, "the controllers did not stop within 10s"))
	})
}
