package credential

import (
	"context"
	"fmt"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// WarnBefore is how long before the expiry the condition becomes True.
	WarnBefore = 14 * 24 * time.Hour
	// expiryInterval is the time between two requests for the expiry, retryInterval after a failure.
	expiryInterval = 6 * time.Hour
	retryInterval  = 15 * time.Minute
	// expiryFormat contains no seconds, so that tests can distinguish it from times that change with
	// each attempt.
	expiryFormat = "2006-01-02 15:04 MST"
)

// expiry is the result of the last request for the expiry of a content.
type expiry struct {
	// at is the zero time if the content does not expire or OpenStack has not reported it.
	at time.Time
	// next is the time of the next request.
	next time.Time
	// warned is the number of steps for which an event was emitted.
	warned int
}

// steps returns the times before the expiry at which an event is emitted.
func steps() []time.Duration {
	const day = 24 * time.Hour
	return []time.Duration{WarnBefore, 7 * day, day, 0}
}

// checkExpiry returns the condition about the expiry, which it requests at long intervals.
func (w *Watcher) checkExpiry(ctx context.Context, client *openstack.Client) *cluster.Condition {
	if now := w.Clock.Now(); !now.Before(w.expiry.next) {
		bounded, cancel := context.WithTimeout(ctx, firstTry)
		defer cancel()
		at, err := client.CredentialExpiry(bounded)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("OpenStack did not report when the credentials expire",
				"secret", w.source.Name, "reason", err.Error())
			w.expiry.next = now.Add(retryInterval)
		} else {
			w.expiry.at, w.expiry.next = at, now.Add(expiryInterval)
		}
	}
	name := w.Service + "CredentialsExpireSoon"
	w.Metrics.observe(w.Service, w.expiry.at, w.Clock.Now())
	left := w.expiry.at.Sub(w.Clock.Now())
	if w.expiry.at.IsZero() || left > WarnBefore {
		return cluster.NewCondition(name, opv1.ConditionFalse, reasonAsExpected,
			"OpenStack reports no expiry of the credentials within 14 days")
	}
	reason, verb := "ExpiresSoon", "expires"
	if left <= 0 {
		reason, verb = "Expired", "has expired"
	}
	message := fmt.Sprintf("The application credential in %s %s at %s. Create a new one, and update "+
		"the source of the Secret", w.source.Name, verb, w.expiry.at.UTC().Format(expiryFormat))
	w.warn(left, message)
	return cluster.NewCondition(name, opv1.ConditionTrue, reason, message)
}

// warn emits an event when the remaining time becomes shorter than a step.
func (w *Watcher) warn(left time.Duration, message string) {
	passed := 0
	for _, step := range steps() {
		if left <= step {
			passed++
		}
	}
	if passed > w.expiry.warned {
		w.Events.Warningf(w.Service+"CredentialsExpireSoon", "%s", message)
	}
	w.expiry.warned = passed
}

// Metrics report the expiry of a driver's credentials. Without RegisterWith they record nothing.
type Metrics struct {
	expiry *metrics.GaugeVec
}

func newMetrics() Metrics {
	return Metrics{expiry: metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "openstack_csi_credentials_expiry_seconds",
		Help: "Seconds until the application credential of the driver expires, negative after the " +
			"expiry. Absent for credentials that do not expire or are not accepted.",
	}, []string{"service"})}
}

// RegisterWith adds the metrics to a registry.
func (m Metrics) RegisterWith(register func(metrics.Registerable) error) error {
	return register(m.expiry)
}

func (m Metrics) observe(service string, at, now time.Time) {
	if at.IsZero() {
		m.expiry.DeleteLabelValues(service)
		return
	}
	m.expiry.WithLabelValues(service).Set(at.Sub(now).Seconds())
}
