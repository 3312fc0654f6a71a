//go:build e2e

package promises

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestDrainHonoursPodDisruptionBudgets drains both nodes, one after the other. Each controller has
// two replicas, as in a highly available cluster. When the second node is drained, all of them run
// on it, so that their PodDisruptionBudgets must delay the eviction of one.
func TestDrainHonoursPodDisruptionBudgets(t *testing.T) {
	x := use(t, kind{tls: true})
	x.useTwoReplicas()
	w := x.writeInStatefulSet("drain", pods.Cinder())
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
		assert.Check(t, refused(out, workload.name),
			"no PodDisruptionBudget delayed the eviction of a pod of %s:\n%s", workload.name, out)
	}
	w = x.follow(w.pod)
	x.kubectl("uncordon", second)
	for name, available := range least() {
		assert.Check(t, available >= 1,
			"Deployment %s had %d available pods during a drain", name, available)
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
	x.T.Helper()
	x.patchDrivers(map[string]any{"managementState": opv1.Unmanaged})
	x.CleanUp(func(ctx context.Context) error {
		x.patchDrivers(map[string]any{"managementState": opv1.Managed})
		return x.awaitOneReplica(ctx)
	})
	// An operator that has not seen the change yet sets one replica again.
	x.Eventually("two replicas of each controller are available", func() error {
		var errs []error
		for _, w := range x.controllers() {
			now, err := x.rollout(x.T.Context(), w)
			if err == nil && now.wanted != 2 {
				err = x.scale(w, 2)
				err = errors.Join(err, fmt.Errorf("%s had %d replicas", w.name, now.wanted))
			}
			errs = append(errs, err, now.done)
		}
		return errors.Join(errs...)
	})
}

func (x *test) scale(w workload, replicas int32) error {
	_, err := x.Cluster.Client.AppsV1().Deployments(w.namespace).UpdateScale(x.T.Context(), w.name,
		&autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: w.namespace},
			Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
		}, metav1.UpdateOptions{})
	return err
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
	x.T.Helper()
	nodes, err := x.Cluster.Client.CoreV1().Nodes().List(x.T.Context(), metav1.ListOptions{})
	x.Must(err)
	for _, other := range nodes.Items {
		if other.Name != node {
			return other.Name
		}
	}
	x.T.Fatalf("there is no node but %s", node)
	return ""
}

// drain drains a node, and returns what kubectl prints. Afterwards all controllers are available.
func (x *test) drain(node string) string {
	x.T.Helper()
	out := x.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
		"--timeout="+timeout.String())
	x.awaitRollouts(x.controllers())
	return out
}

// kubectl runs kubectl and returns what it prints.
func (x *test) kubectl(args ...string) string {
	x.T.Helper()
	cmd := exec.CommandContext(x.T.Context(), filepath.Join(x.Cluster.Binaries, "kubectl"),
		append([]string{"--kubeconfig=" + x.Cluster.Dir.AdminKubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	assert.Assert(x.T, err == nil, "kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	return string(out)
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
