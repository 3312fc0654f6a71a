package sidecar

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// election elects one of the pods with the controller service of a driver. Only its sidecar serves
// the operations of the controller service.
type election struct {
	described driver.Description
	settings  Election
	pod       string
	kube      kubernetes.Interface
	metrics   *Metrics

	mu     sync.Mutex
	term   *term  // nil if this pod is not the leader
	leader string // the last leader that is known; "" without one
}

func (s *Sidecar) newElection(described driver.Description) *election {
	return &election{
		described: described, settings: s.Settings.Election, pod: s.Settings.Pod.Name, kube: s.Kube,
		metrics: s.Metrics,
	}
}

// run takes part in elections until ctx is done, and then releases the Lease. The caller stops all
// operations before that. A pod that loses the Lease goes on without a restart.
func (e *election) run(ctx context.Context) {
	if !e.described.Controller {
		return
	}
	log := klog.FromContext(ctx)
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(e.config())
		if err != nil { // the settings are checked when they are read
			log.Error(err, "Failed to prepare leader election: this pod never becomes the leader")
			return
		}
		elector.Run(ctx)
		e.end()
		if ctx.Err() == nil {
			log.Info("Lost the Lease: another pod serves the operations of the controller service",
				"lease", wire.LeaseName(e.described.Name))
		}
	}
	if err := e.release(context.WithoutCancel(ctx)); err != nil {
		log.Error(err, "Failed to release the Lease: the next leader waits until it expires")
	}
}

func (e *election) config() leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Name: wire.LeaseName(e.described.Name), Lock: observedLock{e.lock(), e},
		LeaseDuration: e.settings.LeaseDuration, RenewDeadline: e.settings.RenewDeadline,
		RetryPeriod: e.settings.RetryPeriod,
		// The lock begins and ends terms: these functions run in any order.
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {},
		},
	}
}

func (e *election) lock() resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{
			Namespace: e.settings.Namespace, Name: wire.LeaseName(e.described.Name),
		},
		Client: e.kube.CoordinationV1(),
		// Controllers find the leader by the name of its pod.
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.pod},
	}
}

// release gives up the Lease if this pod holds it, so that another pod need not wait for its end.
func (e *election) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.settings.RenewDeadline)
	defer cancel()
	lock := e.lock()
	record, _, err := lock.Get(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Lease %s: %w", lock.Describe(), err)
	}
	if record.HolderIdentity != e.pod {
		return nil
	}
	record.HolderIdentity, record.LeaseDurationSeconds = "", 1
	if err := lock.Update(ctx, *record); err != nil {
		return fmt.Errorf("updating Lease %s: %w", lock.Describe(), err)
	}
	return nil
}

// observe ends the term of this pod if another pod holds the Lease.
func (e *election) observe(holder string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leader = holder
	if holder != e.pod {
		e.endLocked()
	}
}

// renewed begins or extends the term of this pod, which has held the Lease since a time. The term
// ends when the renew deadline has passed since then. No other pod gets the Lease before.
func (e *election) renewed(since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leader = e.pod
	if e.term == nil {
		e.term = newTerm()
		e.metrics.lead(true)
	} else {
		e.term.timer.Stop()
	}
	t := e.term
	t.until = since.Add(e.settings.RenewDeadline)
	t.timer = time.AfterFunc(time.Until(t.until), func() { e.endIfOver(t) })
}

// endIfOver ends a term, unless the Lease was renewed while the timer fired.
func (e *election) endIfOver(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == t && t.over(time.Now()) {
		e.endLocked()
	}
}

// end ends the term of this pod, and cancels its operations.
func (e *election) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked()
}

func (e *election) endLocked() {
	if e.term == nil {
		return
	}
	e.term.timer.Stop()
	e.term.cancel(errLostLease)
	e.term = nil
	e.metrics.lead(false)
}

// current returns the term of this pod, or an error that names the leader.
func (e *election) current() (*term, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term != nil && e.term.over(time.Now()) { // its timer fires soon
		e.endLocked()
	}
	switch {
	case e.term != nil:
		return e.term, nil
	case e.leader == "" || e.leader == e.pod: // before the first term, or between two terms
		return nil, status.Errorf(codes.FailedPrecondition,
			"no pod is the leader of driver %s at the moment", e.described.Name)
	default:
		return nil, status.Errorf(codes.FailedPrecondition,
			"pod %s is not the leader of driver %s: call the pod %q in Lease %s/%s", e.pod,
			e.described.Name, e.leader, e.settings.Namespace, wire.LeaseName(e.described.Name))
	}
}
