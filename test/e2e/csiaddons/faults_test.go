//go:build e2e

package csiaddons

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shareaccessrules"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/node/supervisor"
)

// seedVariable names the variable with the seed of the faults: their order, nodes and moments.
const seedVariable = "CHAOS_SEED"

// fault is something that happens to a node.
type fault struct {
	name string
	// bound is the longest time until writers write, claims are bound and written, jobs have
	// succeeded, and deleted claims are gone from Kubernetes and OpenStack.
	bound  time.Duration
	strike func(*faults, *cluster.Node)
	// central means that the node runs the controller of Manila, which fences nodes. Otherwise the
	// seed chooses the node.
	central bool
}

// kinds returns each kind of fault once.
func kinds() []fault {
	return []fault{
		{"kubelet killed", 2 * time.Minute, restart(supervisor.Kubelet), false},
		{"containerd killed", 2 * time.Minute, restart(supervisor.Containerd), false},
		{"power lost for a moment", 4 * time.Minute, (*faults).reboot, false},
		{"node lost, fenced and repaired", 8 * time.Minute, (*faults).lose, true},
	}
}

// faults is a running test with what observes it.
type faults struct {
	*test

	random *rand.Rand
	// disks and shares are the writers of volumes of Cinder and of shares of Manila.
	disks, shares []*pods.Writer
	// networks are those of the nodes, and class is a NetworkFenceClass.
	networks map[string]netip.Prefix
	class    string
}

// TestNodesFail kills parts of nodes and whole nodes while pods write to volumes and shares, while
// claims are created and deleted, and while space is reclaimed. No synchronized byte is lost, no
// volume has two devices, no share stays fenced, and our programs send few requests.
func TestNodesFail(t *testing.T) {
	f := newFaults(t)
	attached := f.watchDevices()
	for i, node := range f.Cluster.Nodes() {
		f.disks = append(f.disks,
			f.WriteInStatefulSet(fmt.Sprint("volume-", i), pods.Cinder(), node.Name()))
		f.shares = append(f.shares,
			f.WriteInStatefulSet(fmt.Sprint("share-", i), pods.Manila(), node.Name()))
	}
	last := f.startWork("work-0")
	last.await()
	began, plan := time.Now(), f.plan()
	for number, of := range plan {
		next := f.startWork(fmt.Sprint("work-", number+1))
		last.remove()
		f.suffer(of, func() {
			next.await()
			last.awaitGone()
		})
		last = next
	}
	last.remove()
	last.awaitGone()
	f.mustHaveSentLittle(began, len(plan))
	for _, w := range f.writers() {
		w.MustHaveWritten()
	}
	f.mustHaveNoOtherVolumes()
	f.Must(attached())
	f.Must(f.Cluster.WaitUntilReady(t.Context()))
}

// newFaults returns a test with the seed of the environment, or with seed 1.
func newFaults(t *testing.T) *faults {
	t.Helper()
	f := &faults{test: use(t), class: "faults"}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(seedVariable), "1"), 10, 64)
	f.Must(err)
	t.Logf("SEED=%d repeats this run", seed)
	f.random = rand.New(rand.NewPCG(seed, 0))
	f.start(&v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: f.class},
		Spec:       v1alpha1.NetworkFenceClassSpec{Provisioner: manilaDriver},
	})
	var names []string
	for _, node := range f.Cluster.Nodes() {
		names = append(names, node.Name())
	}
	f.networks = f.clients(f.class, names...)
	return f
}

func (f *faults) writers() []*pods.Writer { return slices.Concat(f.disks, f.shares) }

// mustProgress waits until all writers write, and returns the longest time in which any of them has
// written nothing.
func (f *faults) mustProgress() (pause time.Duration) {
	f.T.Helper()
	for _, w := range f.writers() {
		pause = max(pause, w.MustProgress())
	}
	return pause
}

// plan returns all kinds of faults, those of services twice, in the order of the seed.
func (f *faults) plan() []fault {
	all := kinds()
	all = append(all, all[:2]...)
	f.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// suffer strikes a node at some moment, and checks how long it takes until everything works again.
func (f *faults) suffer(of fault, settled func()) {
	f.T.Helper()
	nodes := f.Cluster.Nodes()
	node := nodes[f.random.IntN(len(nodes))]
	if of.central {
		node = f.nodeOfController()
	}
	moment := time.Duration(f.random.Int64N(int64(5 * time.Second)))
	select {
	case <-time.After(moment):
	case <-f.T.Context().Done():
	}
	for _, w := range f.writers() {
		w.ForgetPause()
	}
	struck := time.Now()
	of.strike(f, node)
	pause := f.mustProgress()
	settled()
	took := time.Since(struck)
	f.T.Logf("%s on %s after %v: everything worked after %v; the longest pause of a writer was %v",
		of.name, node.Name(), moment.Round(time.Millisecond), took.Round(time.Second),
		pause.Round(time.Second))
	assert.Check(f.T, took <= of.bound,
		"%s: everything worked after %v, want %v", of.name, took, of.bound)
}

// restart kills a service of a node, which starts it again.
func restart(service string) func(*faults, *cluster.Node) {
	return func(f *faults, node *cluster.Node) { f.Must(node.Restart(f.T.Context(), service)) }
}

// reboot cuts the power of a node, and boots it at once.
func (f *faults) reboot(node *cluster.Node) {
	f.Must(node.CutPower())
	f.Must(node.PowerOn(f.T.Context()))
}

// lose cuts the power of a node. As an administrator should, it then fences the node, lets
// Kubernetes detach the volumes, repairs the node, and ends the fence.
func (f *faults) lose(node *cluster.Node) {
	f.T.Helper()
	rules := map[*volume][]shareaccessrules.ShareAccess{}
	for _, w := range f.shares {
		share := f.volumeOf(w.Claim)
		rules[share] = f.rules(share)
	}
	lost := time.Now()
	f.Must(node.CutPower())
	powered := false
	f.CleanUp(func(ctx context.Context) error {
		if powered {
			return nil
		}
		return node.PowerOn(ctx)
	})
	f.awaitNode(node.Name(), corev1.ConditionUnknown)
	f.taint(node.Name(), func(taints []corev1.Taint) []corev1.Taint {
		return append(taints, corev1.Taint{
			Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
		})
	})
	fence := &v1alpha1.NetworkFence{
		ObjectMeta: metav1.ObjectMeta{Name: "faults"},
		Spec: v1alpha1.NetworkFenceSpec{
			NetworkFenceClassName: f.class, FenceState: v1alpha1.Fenced,
			Cidrs: []string{f.networks[node.Name()].String()},
		},
	}
	f.start(fence)
	f.awaitFence(fence, metav1.ConditionTrue, pods.Timeout)
	f.T.Logf("node %s was fenced after %v", node.Name(), time.Since(lost).Round(time.Second))
	for share := range rules {
		f.mustHaveAccess(share, f.networks[node.Name()], "")
	}
	f.mustProgress()
	f.T.Logf("all writers wrote without node %s after %v", node.Name(),
		time.Since(lost).Round(time.Second))

	f.Must(node.PowerOn(f.T.Context()))
	powered = true
	f.awaitNode(node.Name(), corev1.ConditionTrue)
	f.taint(node.Name(), func(taints []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(taints, func(taint corev1.Taint) bool {
			return taint.Key == corev1.TaintNodeOutOfService
		})
	})
	f.setState(fence, v1alpha1.Unfenced)
	f.awaitFence(fence, metav1.ConditionFalse, pods.Timeout)
	for share, before := range rules {
		f.mustHaveRules(share, before)
	}
}

// nodeOfController returns the node with the controller of Manila.
func (f *faults) nodeOfController() *cluster.Node {
	f.T.Helper()
	list, err := f.Cluster.Client.CoreV1().Pods(manilaNamespace).List(f.T.Context(),
		metav1.ListOptions{})
	f.Must(err)
	for _, pod := range list.Items {
		for _, node := range f.Cluster.Nodes() {
			if strings.Contains(pod.Name, "controllerplugin") && pod.Spec.NodeName == node.Name() {
				return node
			}
		}
	}
	f.T.Fatal("the controller of Manila has no pod")
	return nil
}

// awaitNode waits until a Node is ready, or not.
func (f *faults) awaitNode(name string, ready corev1.ConditionStatus) {
	f.T.Helper()
	f.Eventually("condition Ready of Node "+name+" is "+string(ready), func() error {
		node, err := f.Cluster.Client.CoreV1().Nodes().Get(f.T.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == ready {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", node.Status.Conditions)
	})
}

// taint changes the taints of a Node.
func (f *faults) taint(name string, change func([]corev1.Taint) []corev1.Taint) {
	f.T.Helper()
	nodes := f.Cluster.Client.CoreV1().Nodes()
	f.Must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(f.T.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		_, err = nodes.Update(f.T.Context(), node, metav1.UpdateOptions{})
		return err
	}))
}
