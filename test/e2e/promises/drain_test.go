//go:build e2e

package promises

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestDrainHonoursPodDisruptionBudgets drains both nodes, one after the other. Each controller has
// two replicas, as in a highly available cluster. When the second node is drained, all of them run
// on it, so that their PodDisruptionBudgets must delay the eviction of one.
func TestDrainHonoursPodDisruptionBudgets(t *testing.T) {
	x := use(t, kind{tls: true})
	x.useTwoReplicas()
	w := x.WriteInStatefulSet("drain", pods.Cinder(), "")
	first, second := w.Node(), ""
	for _, node := range x.Cluster.Nodes() {
		if node.Name() != first {
			second = node.Name()
		}
	}
	least := x.watchAvailable()
	x.drain(first)
	w.MustProgress()
	assert.Check(t, is.Equal(w.Node(), second), "the node of the writer after the drain of %s", first)
	x.run("kubectl uncordon " + first)
	out := x.drain(second)
	for _, workload := range x.controllers() {
		assert.Check(t, refused(out, workload.name),
			"no PodDisruptionBudget delayed the eviction of a pod of %s:\n%s", workload.name, out)
	}
	w.MustProgress()
	x.run("kubectl uncordon " + second)
	for name, available := range least() {
		assert.Check(t, available >= 1,
			"Deployment %s had %d available pods during a drain", name, available)
	}
	w.MustHaveWritten()
}

// refused returns true if the API server refused to evict a pod of a workload.
func refused(output, workload string) bool {
	for line := range strings.Lines(output) {
		if strings.Contains(line, workload) && strings.Contains(line, "disruption budget") {
			return true
		}
	}
	return false
}

// useTwoReplicas sets two replicas of each controller. The operators set one on Kubernetes, so they
// must not manage their drivers meanwhile.
func (x *test) useTwoReplicas() {
	x.T.Helper()
	x.run(x.setInDrivers("managementState", string(opv1.Unmanaged)))
	restore := x.setInDrivers("managementState", string(opv1.Managed))
	for _, w := range x.controllers() {
		restore += "\nkubectl wait --for=jsonpath='{.spec.replicas}'=1 --timeout=1m " + w.object() +
			"\nkubectl rollout status --timeout=1m " + w.object()
	}
	x.runAfter(restore)
	// An operator that has not seen the change yet sets one replica again.
	x.Eventually("two replicas of each controller are available", func() error {
		var errs []error
		for _, w := range x.controllers() {
			before, err := guide.Output(x.T.Context(),
				"kubectl get -o jsonpath='{.spec.replicas}' "+w.object(), x.terminal()...)
			if err == nil && before != "2" {
				err = fmt.Errorf("%s had %s replicas", w.name, before)
			}
			errs = append(errs, err, guide.Run(x.T.Context(), "kubectl scale --replicas=2 "+w.object()+
				"\nkubectl rollout status --timeout=1m "+w.object(), x.terminal()...))
		}
		return errors.Join(errs...)
	})
}

// drain drains a node, and returns what kubectl prints. Afterwards all controllers are available.
func (x *test) drain(node string) string {
	x.T.Helper()
	out := x.run("kubectl drain --ignore-daemonsets --delete-emptydir-data --force --timeout=" +
		timeout.String() + " " + node)
	x.awaitRollouts(x.controllers())
	return out
}

// watchAvailable watches the Deployments of the drivers. It returns a function that ends the watch
// and returns the least number of available pods of each.
func (x *test) watchAvailable() func() map[string]int32 {
	x.T.Helper()
	ctx, stop := context.WithCancel(x.T.Context())
	x.T.Cleanup(stop)
	var watches sync.WaitGroup
	var mu sync.Mutex
	least := map[string]int32{}
	for _, w := range x.controllers() {
		changes, err := x.Cluster.Client.AppsV1().Deployments(w.namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + w.name,
		})
		x.Must(err)
		least[w.name] = 2
		watches.Go(func() {
			for change := range changes.ResultChan() {
				if d, ok := change.Object.(*appsv1.Deployment); ok {
					mu.Lock()
					least[w.name] = min(least[w.name], d.Status.AvailableReplicas)
					mu.Unlock()
				}
			}
			assert.Check(x.T, ctx.Err() != nil, "the watch of Deployment %s ended before the drains", w.name)
		})
	}
	return func() map[string]int32 {
		stop()
		watches.Wait()
		return least
	}
}
