package credential

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// firstTry bounds the first attempt, so that a condition soon reports the reason of the delay.
	// laterTry bounds the others: busy clouds have needed more than 30 s for a login.
	firstTry = 15 * time.Second
	laterTry = 2 * time.Minute
	// recheckInterval is the time between two tests of credentials that OpenStack has accepted.
	recheckInterval = time.Hour

	reasonAsExpected = "AsExpected"
)

func (w *Watcher) acceptedType() string { return w.Service + "CredentialsAccepted" }

func (w *Watcher) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	secret := w.source.Get()
	if secret == nil {
		w.notify(outlook{})
		message := w.source.Name + " is missing"
		failure := &openstack.Error{Reason: openstack.InvalidCredentials, Message: message}
		return w.report(ctx, w.rejected(failure, ""))
	}
	content := digestOf(secret.Data)
	w.record(content)
	w.openClient(content, secret)
	if left := w.remainingWait(content); left > 0 {
		syncCtx.Queue().AddAfter(factory.DefaultQueueKey, left)
	}
	err := w.try(ctx, content)
	w.notify(outlook{content: content, held: w.Holds(secret), acceptable: err == nil})
	if err != nil {
		return w.report(ctx, w.rejected(err, w.consequence(content)))
	}
	accepted := cluster.NewCondition(w.acceptedType(), opv1.ConditionTrue, reasonAsExpected,
		"OpenStack accepts the credentials in "+w.source.Name)
	return w.report(ctx, accepted, w.checkExpiry(ctx))
}

// record starts the wait for a content that is new to this process.
func (w *Watcher) record(content digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accepted == nil || *w.accepted != content {
		w.begin(content)
	}
}

// begin returns the attempt for a content. It starts the wait if the content is new. The caller
// holds the lock.
func (w *Watcher) begin(content digest) *attempt {
	if a := w.attempts[content]; a != nil {
		return a
	}
	for other, a := range w.attempts { // whose wait has ended
		if w.Clock.Since(a.since) >= w.Wait {
			delete(w.attempts, other)
		}
	}
	a := &attempt{since: w.Clock.Now()}
	w.attempts[content] = a
	return a
}

// remainingWait returns how long pods still wait for the content.
func (w *Watcher) remainingWait(content digest) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.attempts[content]; a != nil {
		return w.Wait - w.Clock.Since(a.since)
	}
	return 0
}

// openClient creates the client for a new content.
func (w *Watcher) openClient(content digest, secret *corev1.Secret) {
	if w.client == nil || w.opened != content {
		w.secret = openstack.Secret{Name: w.source.Name, Data: secret.Data}
		w.client = w.Open(w.secret)
		w.opened, w.expiry, w.recheck = content, expiry{}, attempt{tried: w.Clock.Now()}
	}
}

// try sends the content to OpenStack, unless it did so less than half an interval ago or OpenStack
// accepted the content recently.
func (w *Watcher) try(ctx context.Context, content digest) error {
	w.mu.Lock()
	a := w.attempts[content]
	w.mu.Unlock()
	if a == nil {
		return w.tryAccepted(ctx)
	}
	if !a.tried.IsZero() && w.Clock.Since(a.tried) < w.Interval/2 {
		return a.err
	}
	bound := laterTry
	if a.tried.IsZero() {
		bound = firstTry
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := w.client.Try(bounded)
	w.mu.Lock()
	defer w.mu.Unlock()
	a.tried, a.err = w.Clock.Now(), err
	if err == nil {
		w.accepted, w.recheck = &content, attempt{tried: a.tried}
		delete(w.attempts, content) // only this one: a guest cluster may still contain a rejected one
	}
	return err
}

// tryAccepted tests whether OpenStack still accepts the content: passwords change, and application
// credentials are deleted. An outage does not change the result. It uses a new client, because a
// client with a session does not log in.
func (w *Watcher) tryAccepted(ctx context.Context) error {
	age := w.Clock.Since(w.recheck.tried)
	if age < recheckInterval && (w.recheck.err == nil || age < w.Interval/2) {
		return w.recheck.err
	}
	if age >= recheckInterval { // after a rejection, the client has no session and backs off
		w.client = w.Open(w.secret)
	}
	bounded, cancel := context.WithTimeout(ctx, firstTry)
	defer cancel()
	err := w.client.Try(bounded)
	w.recheck.tried = w.Clock.Now()
	if err == nil || openstack.ReasonOf(err) != openstack.CloudUnreachable {
		w.recheck.err = err
	}
	return w.recheck.err
}

// outlook contains the values that the result of Holds depends on.
type outlook struct {
	content          digest
	held, acceptable bool
	copied           copied
	heldCopy         bool
}

// notify triggers the users of Informer if the result of Holds may have changed. It sets the fields
// about the copy.
func (w *Watcher) notify(now outlook) {
	w.mu.Lock()
	now.copied, now.heldCopy = w.copied, w.holdsCopy()
	w.mu.Unlock()
	if now != w.notified {
		w.notified = now
		w.changes.notify()
	}
}

// consequence describes which credentials the driver uses while OpenStack does not accept the
// content.
func (w *Watcher) consequence(content digest) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.attempts[content]
	switch {
	case a == nil:
		return "The driver uses these credentials, from " + w.source.Name
	case w.Clock.Since(a.since) < w.Wait:
		return fmt.Sprintf("The driver keeps its old credentials until OpenStack accepts those in %s, "+
			"for %v at most", w.source.Name, w.Wait)
	}
	return fmt.Sprintf("OpenStack has not accepted the credentials in %s for %v, so the driver uses "+
		"them anyway", w.source.Name, w.Wait)
}

// rejected returns the condition about credentials that are missing or not accepted. It removes the
// metric of the expiry: the last value may be that of other credentials.
func (w *Watcher) rejected(failure error, consequence string) *cluster.Condition {
	w.Metrics.observe(w.Service, time.Time{}, w.Clock.Now())
	message := failure.Error()
	if consequence != "" {
		message += ". " + consequence
	}
	reason := string(openstack.ReasonOf(failure))
	return cluster.NewCondition(w.acceptedType(), opv1.ConditionFalse, reason, message)
}

// report writes the conditions, and emits an event when the first of them has changed.
func (w *Watcher) report(ctx context.Context, conditions ...*cluster.Condition) error {
	err := cluster.ApplyConditions(ctx, w.Cluster.Operator, w.Name(), conditions...)
	if err != nil {
		return err
	}
	accepted, before := conditions[0], w.message
	if *accepted.Message == before {
		return nil
	}
	w.message = *accepted.Message
	switch {
	case *accepted.Status == opv1.ConditionFalse:
		w.Events.Warningf(w.Service+"CredentialsNotAccepted", "%s: %s", *accepted.Reason,
			*accepted.Message)
	case before != "":
		w.Events.Eventf(w.acceptedType(), "%s", *accepted.Message)
	}
	return nil
}
