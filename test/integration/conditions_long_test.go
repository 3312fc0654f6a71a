//go:build integration && long

package integration

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"
)

// TestReadyExplainsRefusedPods lets PodSecurity refuse the pods of the DaemonSets.
func TestReadyExplainsRefusedPods(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
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
