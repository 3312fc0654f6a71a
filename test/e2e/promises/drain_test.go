//go:build e2e

package promises

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	opv1 "github.com/openshift/api/operator/v1"
)

// TestDrainHonoursPodDisruptionBudgets drains both nodes, one after the other. Each controller has
// two replicas, as in a highly available cluster. When the second node is drained, all of them run
// on it, so that their PodDisruptionBudgets must delay the eviction of one.
func TestDrainHonoursPodDisruptionBudgets(t *testing.T) {
	x := use(t, kind{tls: true})
	x.useTwoReplicas()
	w := x.writeInStatefulSet("drain", cinderClass())
	first := x.nodeOf(w)
	second := x.otherNode(first)
	least := x.watchAvailable()
	x.drain(first)
	w = x.follow(w.pod)
	if node := x.nodeOf(w); node != second {
		t.Errorf("pod %s runs on node %s after the drain of node %s", w.pod, node, first)
	}
	x.kubectl("uncordon", first)
	out := x.drain(second)
	for _, workload := range x.controllers() {
		if !refused(out, workload.name) {
			t.Errorf("no PodDisruptionBudget delayed the eviction of a pod of %s:\n%s",
				workload.name, out)
		}
	}
	w = x.follow(w.pod)
	x.kubectl("uncordon", second)
	for name, available := range least() {
		if available < 1 {
			t.Errorf("Deployment %s had %d available pods during a drain", name, available)
		}
	}
	x.mustHaveWrittenInStatefulSet(w, "drain")
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
	x.t.Helper()
	x.patchDrivers(map[string]any{"managementState": opv1.Unmanaged})
	for _, w := range x.controllers() {
		_, err := x.c.Client.AppsV1().Deployments(w.namespace).UpdateScale(x.t.Context(), w.name,
			&autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: w.namespace},
				Spec:       autoscalingv1.ScaleSpec{Replicas: 2},
			}, metav1.UpdateOptions{})
		x.must(err)
	}
	x.cleanUp(func(ctx context.Context) error {
		x.patchDrivers(map[string]any{"managementState": opv1.Managed})
		return x.awaitOneReplica(ctx)
	})
	x.awaitRollouts(x.controllers())
}

// awaitOneReplica waits until the operators have removed the second replica of each controller.
func (x *test) awaitOneReplica(ctx context.Context) error {
	for _, w := range x.controllers() {
		err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true,
			func(ctx context.Context) (bool, error) {
				now, err := x.rollout(ctx, w)
				return err == nil && now.wanted == 1 && now.done == nil, nil
			})
		if err != nil {
			return fmt.Errorf("waiting for one replica of %s: %w", w.name, err)
		}
	}
	return nil
}

// otherNode returns the name of a node that is not the given one.
func (x *test) otherNode(node string) string {
	x.t.Helper()
	nodes, err := x.c.Client.CoreV1().Nodes().List(x.t.Context(), metav1.ListOptions{})
	x.must(err)
	for _, other := range nodes.Items {
		if other.Name != node {
			return other.Name
		}
	}
	x.t.Fatalf("there is no node but %s", node)
	return ""
}

// drain drains a node, and returns what kubectl prints. Afterwards all controllers are available.
func (x *test) drain(node string) string {
	x.t.Helper()
	out := x.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
		"--timeout="+timeout.String())
	x.awaitRollouts(x.controllers())
	return out
}

// kubectl runs kubectl and returns what it prints.
func (x *test) kubectl(args ...string) string {
	x.t.Helper()
	cmd := exec.CommandContext(x.t.Context(), filepath.Join(x.c.Binaries, "kubectl"),
		append([]string{"--kubeconfig=" + x.c.Dir.AdminKubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// watchAvailable watches the Deployments of the drivers. It returns a function that ends the watch
// and returns the least number of available pods of each.
func (x *test) watchAvailable() func() map[string]int32 {
	x.t.Helper()
	ctx, stop := context.WithCancel(x.t.Context())
	x.t.Cleanup(stop)
	var watches sync.WaitGroup
	var mu sync.Mutex
	least := map[string]int32{}
	for _, w := range x.controllers() {
		changes, err := x.c.Client.AppsV1().Deployments(w.namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + w.name,
		})
		x.must(err)
		least[w.name] = 2
		watches.Go(func() {
			for change := range changes.ResultChan() {
				if d, ok := change.Object.(*appsv1.Deployment); ok {
					mu.Lock()
					least[w.name] = min(least[w.name], d.Status.AvailableReplicas)
					mu.Unlock()
				}
			}
		})
	}
	return func() map[string]int32 {
		stop()
		watches.Wait()
		return least
	}
}
