//go:build integration

package integration

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finish stops the operator and makes the checks that every test must pass.
func (e *env) finish() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx()), cleanUp)
	defer cancel()
	metrics := e.metricsText(ctx)
	e.stopOperator()
	e.checkLog()
	e.checkRequests()
	e.checkSecrets(ctx, metrics)
	e.checkConditions(ctx)
	assert.Check(e.t, e.failure())
	if e.t.Failed() {
		e.dump(ctx)
	}
	assert.Check(e.t, e.cloud.Close(), "stopping the cloud")
}

// metricsText returns what the operator serves at /metrics, or "" if it does not serve.
func (e *env) metricsText(ctx context.Context) string {
	if e.operator == nil || !e.operator.Running() {
		return ""
	}
	text, err := e.scrape(ctx)
	if err != nil {
		e.t.Logf("the metrics are not searched for secrets: %v", err)
	}
	return text
}

func (e *env) checkLog() {
	log := e.log()
	crashes := []string{"panic:", "Observed a panic", "DATA RACE", "fatal error:", "goroutine 1 ["}
	for _, crash := range crashes {
		if at := strings.Index(log, crash); at >= 0 {
			e.t.Errorf("the operator's log contains %q:\n%s", crash, log[at:min(len(log), at+3000)])
		}
	}
	for _, body := range []string{"Request Body", "Response Body", "curl -v"} {
		assert.Check(e.t, !strings.Contains(log, body),
			"the operator's log contains %q: bodies and headers contain Secrets", body)
	}
}

func (e *env) checkRequests() {
	for _, r := range e.requests(e.began) {
		refused := r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized
		assert.Check(e.t, !refused || e.allowed != nil && e.allowed(r),
			"the API server refused a request of the operator: %s", r)
		assert.Check(e.t, !r.readsNamespace() || e.mayReadNamespace(r),
			"the operator reads all objects of a namespace: %s", r)
	}
}

// deletesAddons returns true for a deletion of an object of CSI-Addons. Without images an operator
// tries it once after its start.
func (r request) deletesAddons() bool {
	return r.Verb == "delete" && strings.Contains(r.Name, "csi-addons")
}

// mayReadNamespace returns true if the names of the objects are unknown: Infrastructure may name
// any ConfigMap, a HostedControlPlane may have any name, and pods of a workload have labels.
func (e *env) mayReadNamespace(r request) bool {
	selected := strings.Contains(r.URI, "labelSelector=app") && r.Resource == "pods" ||
		strings.Contains(r.URI, "involvedObject.name") && r.Resource == "events"
	return r.Resource == "hostedcontrolplanes" ||
		r.Verb == "list" && selected && strings.Contains(r.URI, "limit=100") ||
		r.Resource == "configmaps" && r.Namespace == openshiftConfig && e.management == e.guest
}

// checkConditions checks that every condition has a reason and a message, and those of the operator
// an entry in conditions.md, which contains one name for the conditions that both drivers have.
func (e *env) checkConditions(ctx context.Context) {
	page, err := os.ReadFile("../../docs/conditions.md")
	assert.Check(e.t, err)
	driver, err := e.guest.openst.OperatorV1().ClusterCSIDrivers().
		Get(ctx, e.subject.ClusterCSIDriver, metav1.GetOptions{})
	assert.Check(e.t, err)
	operators := regexp.MustCompile("^(Manila|Cinder|OpenStack|ConfigObservation|Ready)")
	for _, c := range driver.Status.Conditions {
		name := regexp.MustCompile("(Available|Degraded|Progressing)$").ReplaceAllString(c.Type, "")
		shared := strings.ReplaceAll(name, "Cinder", "Manila")
		if operators.MatchString(c.Type) &&
			!bytes.Contains(page, []byte(name)) && !bytes.Contains(page, []byte(shared)) {
			e.t.Errorf("docs/conditions.md does not contain the condition %s", c.Type)
		}
		if c.Reason == "" || c.Message == "" {
			e.t.Errorf("condition %s=%s has reason %q and message %q, want both set",
				c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// dump logs what helps to understand a failure.
func (e *env) dump(ctx context.Context) {
	var out strings.Builder
	fmt.Fprintln(&out, "--- conditions")
	driver, err := e.guest.openst.OperatorV1().ClusterCSIDrivers().
		Get(ctx, e.subject.ClusterCSIDriver, metav1.GetOptions{})
	if err == nil {
		for _, c := range driver.Status.Conditions {
			fmt.Fprintf(&out, "%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	fmt.Fprintln(&out, "--- events")
	if events, err := e.events(ctx, ""); err == nil {
		for _, event := range events {
			fmt.Fprintf(&out, "%s %s x%d: %s\n", event.LastTimestamp.Format(time.TimeOnly),
				event.Reason, event.Count, event.Message)
		}
	}
	fmt.Fprintln(&out, "--- requests to the cloud")
	log := e.cloud.Log()
	for _, r := range log[max(0, len(log)-15):] {
		fmt.Fprintf(&out, "%s %s %s %d connection %d %v\n", r.Time.Format("15:04:05.000"),
			r.Method, r.Path, r.Status, r.Connection, r.Faults)
	}
	fmt.Fprintf(&out, "--- end of the operator's log, %s\n%s", e.runner().Log(), tail(e.log(), 60))
	e.t.Log(out.String())
}
