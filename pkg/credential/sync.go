package credential

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// firstTry bounds the first attempt, so that a condition soon says what is waited for; laterTry bounds the others, because busy
	// clouds have needed more than 30 s for a login.
	firstTry = 15 * time.Second
	laterTry = 2 * time.Minute
	// againInterval is the time from one question to the next about credentials that OpenStack has accepted.
	againInterval = time.Hour

	reasonAsExpected = "AsExpected"
)

func (w *Watcher) acceptedType() string { return w.Service + "CredentialsAccepted" }

func (w *Watcher) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	spec, _, _, err := w.Cluster.Operator.GetOperatorState()
	if err != nil || spec.ManagementState != opv1.Managed {
		return err
	}
	secret := w.current()
	if secret == nil {
		failure := &openstack.Error{Reason: openstack.InvalidCredentials, Message: w.name + " is missing"}
		return w.report(ctx, w.rejected(failure, ""))
	}
	content := digestOf(secret.Data)
	w.meet(content)
	w.open(content, secret)
	if left := w.left(content); left > 0 {
		syncCtx.Queue().AddAfter(factory.DefaultQueueKey, left)
	}
	err = w.try(ctx, content)
	w.wake(secret, err)
	if err != nil {
		return w.report(ctx, w.rejected(err, w.consequence(content)))
	}
	accepted := applyopv1.OperatorCondition().WithType(w.acceptedType()).
		WithStatus(opv1.ConditionTrue).WithReason(reasonAsExpected).WithMessage("OpenStack accepts the credentials in " + w.name)
	return w.report(ctx, accepted, w.checkExpiry(ctx))
}

// meet notes a content that is new to this process. Its wait begins, also if an earlier process tried it.
func (w *Watcher) meet(content digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.attempts[content] != nil || w.accepted != nil && *w.accepted == content {
		return
	}
	for other, a := range w.attempts { // those that nobody waits for any more
		if w.Clock.Since(a.since) >= w.Wait {
			delete(w.attempts, other)
		}
	}
	w.attempts[content] = &attempt{since: w.Clock.Now()}
}

// left is how long pods may still wait for the content.
func (w *Watcher) left(content digest) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.attempts[content]; a != nil {
		return w.Wait - w.Clock.Since(a.since)
	}
	return 0
}

// open makes the client of a content.
func (w *Watcher) open(content digest, secret *corev1.Secret) {
	if w.client == nil || w.opened != content {
		w.secret = openstack.Secret{Name: w.name, Data: secret.Data}
		w.client = w.Open(w.secret)
		w.opened, w.expiry, w.again = content, expiry{}, attempt{tried: w.Clock.Now()}
	}
}

// try asks OpenStack unless it has been asked just now, or has accepted the content not long ago.
func (w *Watcher) try(ctx context.Context, content digest) error {
	w.mu.Lock()
	a := w.attempts[content]
	w.mu.Unlock()
	if a == nil {
		return w.tryAgain(ctx)
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
		w.accepted, w.again = &content, attempt{tried: a.tried}
		delete(w.attempts, content) // not the others: a copy in a hosted cluster may still have what was refused
	}
	return err
}

// tryAgain asks whether OpenStack still accepts what it has accepted: passwords change and application credentials are deleted. An
// outage says nothing about that. A client that has a session sends no login, so a new client asks.
func (w *Watcher) tryAgain(ctx context.Context) error {
	age := w.Clock.Since(w.again.tried)
	if age < againInterval && (w.again.err == nil || age < w.Interval/2) {
		return w.again.err
	}
	if age >= againInterval { // sooner, after a refusal, the client has no session, and remembers how long to wait
		w.client = w.Open(w.secret)
	}
	bounded, cancel := context.WithTimeout(ctx, firstTry)
	defer cancel()
	err := w.client.Try(bounded)
	w.again.tried = w.Clock.Now()
	if err == nil || openstack.ReasonOf(err) != openstack.CloudUnreachable {
		w.again.err = err
	}
	return w.again.err
}

// outlook is what those who hold credentials back depend on.
type outlook struct {
	content          digest
	held, acceptable bool
}

// wake rings if those who hold credentials back may have to do something.
func (w *Watcher) wake(secret *corev1.Secret, failure error) {
	if now := (outlook{digestOf(secret.Data), w.Holds(secret), failure == nil}); now != w.told {
		w.told = now
		w.bell.ring()
	}
}

// consequence says what the driver does about credentials that OpenStack has not accepted.
func (w *Watcher) consequence(content digest) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.attempts[content]
	switch {
	case a == nil:
		return "The driver uses these credentials, from " + w.name
	case w.Clock.Since(a.since) < w.Wait:
		return fmt.Sprintf("The driver keeps the credentials it has until OpenStack accepts those in %s, for %v at most", w.name, w.Wait)
	}
	return fmt.Sprintf("OpenStack has not accepted the credentials in %s for %v, so the driver uses them all the same", w.name, w.Wait)
}

func (w *Watcher) rejected(failure error, consequence string) *applyopv1.OperatorConditionApplyConfiguration {
	message := failure.Error()
	if consequence != "" {
		message += ". " + consequence
	}
	return applyopv1.OperatorCondition().WithType(w.acceptedType()).
		WithStatus(opv1.ConditionFalse).WithReason(string(openstack.ReasonOf(failure))).WithMessage(message)
}

// report writes the conditions, and an event when the first of them has changed.
func (w *Watcher) report(ctx context.Context, conditions ...*applyopv1.OperatorConditionApplyConfiguration) error {
	if err := w.Cluster.Operator.ApplyOperatorStatus(ctx, w.Name(), applyopv1.OperatorStatus().WithConditions(conditions...)); err != nil {
		return err
	}
	accepted, before := conditions[0], w.message
	if *accepted.Message == before {
		return nil
	}
	w.message = *accepted.Message
	switch {
	case *accepted.Status == opv1.ConditionFalse:
		w.Events.Warningf(w.Service+"CredentialsNotAccepted", "%s: %s", *accepted.Reason, *accepted.Message)
	case before != "":
		w.Events.Eventf(w.acceptedType(), "%s", *accepted.Message)
	}
	return nil
}
