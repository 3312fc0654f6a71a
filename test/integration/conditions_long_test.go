//go:build integration && long

package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"
)

func TestConditionsDescribeProblemsOfTheCluster(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.explainsRefusedPods()
}

// explainsRefusedPods lets PodSecurity refuse the pods of the DaemonSets.
func (e *env) explainsRefusedPods() {
	e.awaitAvailable()
	in := collection{resource("", "namespaces"), ""}
	enforce := func(ctx context.Context, level string) error {
		return e.guest.patch(ctx, in, operandNamespace,
			`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"`+level+`"}}}`)
	}
	e.must(enforce(e.ctx(), "restricted"))
	e.afterwards(func(ctx context.Context) error { return enforce(ctx, "privileged") })
	e.must(e.guest.kube.CoreV1().Pods(operandNamespace).DeleteCollection(e.ctx(),
		metav1.DeleteOptions{}, metav1.ListOptions{}))
	const longest = 2 * time.Minute // controllers of workloads sync once a minute
	e.eventually(longest, func() error {
		return e.hasCondition(ready, opv1.ConditionFalse, "FailedCreate", "DaemonSet "+nfsNodeName+
			" has too few pods: no more can be created: violates PodSecurity")
	})
	e.must(enforce(e.ctx(), "privileged"))
	for _, name := range []string{nodeName, nfsNodeName} { // the next attempt may be minutes away
		e.delete(resource("apps", "daemonsets"), operandNamespace, name)
	}
	e.awaitAvailable()
}

// conditions stops the watch and returns the conditions of all versions one after the other.
func (w *conditionWatch) conditions(s *scope) []opv1.OperatorCondition {
	s.t.Helper()
	conditions := slices.Concat(w.end(s)...)
	assert.Assert(s.t, len(conditions) != 0, "the watch recorded no condition")
	return conditions
}

// message returns the message of a condition.
func (e *env) message(conditionType string) string {
	e.t.Helper()
	all, err := e.conditions()
	e.must(err)
	return all[conditionType].Message
}
