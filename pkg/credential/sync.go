package credential

import (
	"context"
	"time"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// firstTry bounds the first test of a content, so that a condition soon reports the reason of the
	// delay. laterTry bounds the others: busy clouds have needed more than 30 s for a login.
	firstTry = 15 * time.Second
	laterTry = 2 * time.Minute
	// recheckInterval is the time between two tests of credentials that OpenStack has accepted.
	recheckInterval = time.Hour

	reasonAsExpected = "AsExpected"
)

func (w *Watcher) acceptedType() string { return w.Service + "CredentialsAccepted" }

func (w *Watcher) sync(ctx context.Context, _ factory.SyncContext) error {
	access, sum, err := w.read(w.source.Get())
	switch due := w.due(sum); {
	case err != nil:
		w.last = test{content: sum, at: w.Clock.Now()}
		w.fail(err, nil)
	case due:
		w.try(ctx, access, sum)
	default:
		_, failure := w.Accepted()
		w.fail(failure, access.Remarks)
	}
	w.first.Do(func() { close(w.tested) })
	return w.report(ctx)
}

// due returns true for content that is new. Other content is due at a poll: if OpenStack has not
// accepted it, or the last test is an hour old, or the session has ended.
func (w *Watcher) due(content digest) bool {
	if w.last.content != content {
		return true
	}
	age := w.Clock.Since(w.last.at)
	if age < w.Interval/2 {
		return false
	}
	accepted, failure := w.Accepted()
	return failure != nil || age >= recheckInterval || !accepted.Client.Connected()
}

// try tests the content. After a success the next test needs a new session: a token may outlive its
// password. If OpenStack does not answer a test of accepted content, the earlier result counts.
func (w *Watcher) try(ctx context.Context, access openstack.Access, sum digest) {
	accepted, failure := w.Accepted()
	again, known := w.last.content == sum, accepted.digest() == sum
	bound := laterTry
	if !again && !known {
		bound = firstTry
	}
	client := w.last.client
	if client == nil || !again || failure == nil {
		client = openstack.NewClient(openstack.Fixed(access), w.backoff)
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := client.Check(bounded, w.Services()...)
	w.last = test{content: sum, at: w.Clock.Now(), client: client}
	switch {
	case err == nil:
		if !known {
			w.expiry = expiry{}
		}
		w.set(result{
			accepted: &Accepted{access.Login, client, sum}, remarks: access.Remarks,
		})
	case known && openstack.ReasonOf(err) == openstack.CloudUnreachable:
		if !again {
			w.fail(nil, access.Remarks)
		}
	default:
		w.fail(err, access.Remarks)
	}
}

func (w *Watcher) fail(err error, remarks []string) {
	accepted, _ := w.Accepted()
	w.set(result{accepted: accepted, failure: err, remarks: remarks})
}

// set triggers the users of Informer if the result has changed.
func (w *Watcher) set(now result) {
	now.tested = w.last.content
	w.mu.Lock()
	changed := !now.equal(w.result)
	w.result = now
	if changed {
		w.generation++
	}
	w.mu.Unlock()
	if changed {
		w.changes.Notify()
	}
}

// report writes the conditions if the driver is needed.
func (w *Watcher) report(ctx context.Context) error {
	select {
	case <-w.Needed:
	default:
		if w.Needed != nil {
			return nil
		}
	}
	accepted, failure := w.Accepted()
	if failure != nil {
		return w.write(ctx, w.rejected(failure, accepted))
	}
	condition := cluster.NewCondition(w.acceptedType(), opv1.ConditionTrue, reasonAsExpected,
		"OpenStack accepts the credentials in "+w.source.Name)
	return w.write(ctx, condition, w.checkExpiry(ctx, accepted.Client))
}

// rejected returns the condition about credentials that are missing or not accepted. It removes the
// metric of the expiry: the last value may be that of other credentials.
func (w *Watcher) rejected(failure error, accepted *Accepted) *cluster.Condition {
	w.Metrics.observe(w.Service, time.Time{}, w.Clock.Now())
	consequence := "Nothing that runs changes until OpenStack accepts credentials in " + w.source.Name
	switch {
	case accepted != nil && accepted.content == w.last.content:
		consequence = "The driver uses these credentials, from " + w.source.Name
	case accepted != nil:
		consequence = "The driver keeps the earlier login until OpenStack accepts the credentials in " +
			w.source.Name
	}
	return cluster.NewCondition(w.acceptedType(), opv1.ConditionFalse,
		string(openstack.ReasonOf(failure)), failure.Error()+". "+consequence)
}

// write writes the conditions, and emits an event when the first of them has changed.
func (w *Watcher) write(ctx context.Context, conditions ...*cluster.Condition) error {
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
