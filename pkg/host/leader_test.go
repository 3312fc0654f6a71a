package host

import (
	"context"
	"errors"
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
	"k8s.io/client-go/rest"
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
		assert.Check(t, server.holder() != "", "works without the lease")
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
				checkWrites(t, kube, func() { server.set(func() { lose(server) }) })
				<-ctx.Done() // the first refused write ends it
				return nil
			})
			assert.Check(t, is.ErrorIs(err, errLeaseLost))
		})
	}
}

// checkWrites checks that a client writes until the process loses the Lease, and then only reads.
func checkWrites(t *testing.T, kube kubernetes.Interface, lose func()) {
	t.Helper()
	write := func() error {
		_, err := kube.CoreV1().Events("ns").Create(t.Context(), &corev1.Event{}, metav1.CreateOptions{})
		return err
	}
	assert.Check(t, write(), "writing with the lease")
	lose()
	err := wait.PollUntilContextCancel(bounded(t), 10*time.Millisecond, true,
		func(context.Context) (bool, error) { return errors.Is(write(), lease.ErrExpired), nil })
	assert.Check(t, err, "writes without the lease do not end")
	assert.Check(t, is.ErrorIs(write(), lease.ErrExpired))
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
	assert.Check(t, err)
	assert.Check(t, is.Equal(server.holder(), "another"))
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
	for name, tt := range map[string]struct {
		infrastructure string
		change         func(*Options)
		reads          bool
		want           [3]time.Duration // in seconds
	}{
		"replicas, or unknown": {"", func(*Options) {}, true, [3]time.Duration{137, 107, 26}},
		"single replica":       {single, func(*Options) {}, true, [3]time.Duration{270, 240, 60}},
		"not OpenShift": {
			single, func(o *Options) { o.NotOpenShift = true }, false, [3]time.Duration{137, 107, 26},
		},
		"hosted": {
			single, func(o *Options) { o.Served = rest.CopyConfig(o.Config) }, false,
			[3]time.Duration{137, 107, 26},
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
