package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/lease"
)

func TestWorkReturnsBeforeTheLeaseIsReleased(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	err := lead(ctx, server.options(), func(work context.Context, _ Options) error {
		server.note("work")
		if holder := server.holder(); holder == "" {
			t.Error("works without the lease")
		}
		cancel()
		<-work.Done()
		// Work stops more slowly than the Lease is renewed.
		<-time.After(100 * time.Millisecond)
		server.note("work ended")
		return nil
	})
	assert.Check(t, err)
	assert.Check(t, is.DeepEqual([]string{"lease taken", "work", "work ended", "lease released"},
		server.notes()),
		"order")
}

func TestErrorOfWorkIsReturned(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	failure := errors.New("cannot work")
	if err := lead(bounded(t), server.options(),
		func(context.Context, Options) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
	assert.Check(t, is.DeepEqual([]string{"lease taken", "lease released"}, server.notes()), "order")
}

func TestLostLeaseIsAnError(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	o := server.options()
	o.Operator.LeaderElection.RenewDeadline.Duration = time.Second
	err := lead(bounded(t), o, func(work context.Context, _ Options) error {
		server.set(func() { server.down = true })
		<-work.Done()
		return nil
	})
	assert.Check(t, errors.Is(err, errLeaseLost), "got %v, want %v", err, errLeaseLost)
}

// TestWithoutTheLeaseNothingIsWritten runs work that ignores its context, because a process that
// was frozen is not told that another one leads.
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
				if err != nil {
					return err
				}
				checkWrites(t, kube, func() { server.set(func() { lose(server) }) })
				<-ctx.Done() // the first refused write ends it
				return nil
			})
			assert.Check(t, errors.Is(err, errLeaseLost), "got %v, want %v", err, errLeaseLost)
		})
	}
}

// checkWrites checks that a client writes until the process loses the Lease, and then only reads.
func checkWrites(t *testing.T, kube kubernetes.Interface, lose func()) {
	t.Helper()
	write := func() error {
		_, err := kube.CoreV1().Events("ns").
			Create(t.Context(), &corev1.Event{}, metav1.CreateOptions{})
		return err
	}
	assert.Check(t, write(), "writing with the lease")
	lose()
	err := wait.PollUntilContextCancel(bounded(t), 10*time.Millisecond, true,
		func(context.Context) (bool, error) { return errors.Is(write(), lease.ErrExpired), nil })
	assert.Check(t, err, "writes without the lease do not end")
	if err := write(); !errors.Is(err, lease.ErrExpired) {
		t.Errorf("writing without the lease: %v", err)
	}
	err = kube.CoreV1().RESTClient().Get().
		AbsPath("/apis/config.openshift.io/v1/infrastructures/cluster").Do(t.Context()).Error()
	assert.Check(t, err, "reading without the lease")
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
	if err != nil || server.holder() != "another" {
		t.Errorf("got %v, lease held by %q", err, server.holder())
	}
}

func TestWorkRunsWithoutLeaderElection(t *testing.T) {
	t.Parallel()
	o := newAPIServer(t).options()
	o.Operator.LeaderElection.Disable = true
	failure := errors.New("cannot work")
	err := lead(bounded(t), o, func(context.Context, Options) error { return failure })
	assert.Check(t, errors.Is(err, failure), "got %v, want %v", err, failure)
}

func TestInvalidLeaderElectionIsAnError(t *testing.T) {
	t.Parallel()
	o := newAPIServer(t).options()
	o.Operator.LeaderElection.RenewDeadline.Duration = time.Hour
	err := lead(bounded(t), o, func(context.Context, Options) error {
		t.Error("works without election")
		return nil
	})
	assert.Check(t, err != nil && strings.HasPrefix(err.Error(), "preparing leader election: "),
		"got %v, want the election's fault", err)
}

func TestLeaderElectionDurationsDependOnTheTopology(t *testing.T) {
	t.Parallel()
	single := infrastructure(configv1.SingleReplicaTopologyMode)
	given := configv1.LeaderElection{LeaseDuration: metav1.Duration{Duration: 200 * time.Second}}
	for name, tt := range map[string]struct {
		infrastructure string
		notOpenShift   bool
		given          configv1.LeaderElection
		want           []time.Duration
	}{
		"highly available, or not known": {want: []time.Duration{
			137 * time.Second, 107 * time.Second,
			26 * time.Second,
		}},
		"single replica": {
			infrastructure: single,
			want:           []time.Duration{270 * time.Second, 240 * time.Second, 60 * time.Second},
		},
		"not OpenShift": {
			infrastructure: single, notOpenShift: true,
			want: []time.Duration{137 * time.Second, 107 * time.Second, 26 * time.Second},
		},
		"given": {
			infrastructure: single,
			given:          given,
			want:           []time.Duration{200 * time.Second, 107 * time.Second, 26 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPIServer(t)
			server.infrastructure = tt.infrastructure
			o := server.options()
			o.Operator.LeaderElection, o.NotOpenShift = tt.given, tt.notOpenShift
			got, err := o.election(t.Context())
			assert.NilError(t, err)
			assert.Check(t, is.DeepEqual(tt.want, []time.Duration{
				got.LeaseDuration, got.RenewDeadline,
				got.RetryPeriod,
			}),
				"durations")
			if lock := got.Lock.Describe(); lock != "ns/test-lock" || !got.ReleaseOnCancel {
				t.Errorf("lock is %s, released is %v", lock, got.ReleaseOnCancel)
			}
		})
	}
}

func TestWorkThatDoesNotReturnIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		close(started)
		if err := outcome(t.Context(), started, make(chan error)); err == nil ||
			err.Error() != "the controllers did not stop within 10s" {
			t.Errorf("got %v, want the bound", err)
		}
	})
}
