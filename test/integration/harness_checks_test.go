//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finish ends the operator and checks what every test must leave behind in order.
func (e *env) finish() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx()), 30*time.Second)
	defer cancel()
	e.stopOperator()
	e.checkLog()
	e.checkRequests()
	e.checkObjects(ctx)
	if e.t.Failed() {
		e.dump(ctx)
	}
	if err := e.sim.Close(); err != nil {
		e.t.Errorf("stopping the cloud: %v", err)
	}
}

// leaked returns the secrets that a text contains.
func (e *env) leaked(text string) []string {
	return slices.DeleteFunc(slices.Clone(e.secrets), func(secret string) bool { return !strings.Contains(text, secret) })
}

func (e *env) checkLog() {
	log := e.log()
	for _, bad := range []string{"panic:", "Observed a panic", "DATA RACE", "fatal error:", "goroutine 1 ["} {
		if at := strings.Index(log, bad); at >= 0 {
			e.t.Errorf("the operator's log has %q:\n%s", bad, log[at:min(len(log), at+3000)])
		}
	}
	if found := e.leaked(log); len(found) > 0 {
		e.t.Errorf("the operator's log has secrets: %v", found)
	}
}

func (e *env) checkRequests() {
	for _, r := range e.requests(e.began) {
		if found := e.leaked(r.URI); len(found) > 0 {
			e.t.Errorf("a request of the operator has secrets %v in its address: %s", found, r)
		}
		if (r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized) && (e.allowed == nil || !e.allowed(r)) {
			e.t.Errorf("the operator has no right to do what it did: %s", r)
		}
		if r.isOfNamespace() && !e.mayListAll(r) {
			e.t.Errorf("the operator reads all objects of a namespace, with those of others: %s", r)
		}
	}
}

// mayListAll tells whether nobody knows the names of these objects: Infrastructure may name any ConfigMap, and there is no name for a
// HostedControlPlane.
func (e *env) mayListAll(r request) bool {
	return r.Resource == "hostedcontrolplanes" ||
		r.Resource == "configmaps" && r.Namespace == openshiftConfig && e.management == e.side
}

// checkObjects looks for secrets in what people read without having rights on Secrets.
func (e *env) checkObjects(ctx context.Context) {
	events, err := e.events(ctx, "")
	if err != nil {
		e.t.Error(err)
	}
	driver, err := e.openst.OperatorV1().ClusterCSIDrivers().Get(ctx, e.subject.driver, metav1.GetOptions{})
	if err != nil {
		e.t.Error(err)
	}
	deployments, err := e.management.kube.AppsV1().Deployments(e.subject.controllerNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.t.Error(err)
	}
	daemonSets, err := e.kube.AppsV1().DaemonSets(e.subject.operandNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.t.Error(err)
	}
	leases, err := e.management.kube.CoreV1().Events(e.management.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.t.Error(err)
	}
	for what, object := range map[string]any{
		"events": events, "events beside the operator": leases, "the ClusterCSIDriver": driver, "Deployments": deployments, "DaemonSets": daemonSets,
	} {
		text, err := json.Marshal(object)
		if err != nil {
			e.t.Error(err)
		}
		if found := e.leaked(string(text)); len(found) > 0 {
			e.t.Errorf("secrets %v are in %s:\n%s", found, what, text)
		}
	}
	for _, c := range driver.Status.Conditions {
		if c.Reason == "" || c.Message == "" {
			e.t.Errorf("condition %s=%s has reason %q and message %q, want both set", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// dump shows what helps to understand a failure.
func (e *env) dump(ctx context.Context) {
	var out strings.Builder
	fmt.Fprintln(&out, "--- conditions")
	if driver, err := e.openst.OperatorV1().ClusterCSIDrivers().Get(ctx, e.subject.driver, metav1.GetOptions{}); err == nil {
		for _, c := range driver.Status.Conditions {
			fmt.Fprintf(&out, "%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	fmt.Fprintln(&out, "--- events")
	if events, err := e.events(ctx, ""); err == nil {
		for _, event := range events {
			fmt.Fprintf(&out, "%s %s x%d: %s\n", event.LastTimestamp.Format(time.TimeOnly), event.Reason, event.Count, event.Message)
		}
	}
	fmt.Fprintln(&out, "--- requests to the cloud")
	if log, err := e.cloud.Log(ctx, 0); err == nil {
		for _, r := range log[max(0, len(log)-15):] {
			fmt.Fprintf(&out, "%s %s %s %d connection %d %v\n", r.Time.Format("15:04:05.000"), r.Method, r.Path, r.Status, r.Connection, r.Faults)
		}
	}
	fmt.Fprintf(&out, "--- end of the operator's log, %s\n%s", e.logPath(), tail(e.log(), 60))
	e.t.Log(out.String())
}
