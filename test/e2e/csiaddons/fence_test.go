//go:build e2e

package csiaddons

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shareaccessrules"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

const (
	manilaNamespace = "openstack-csi"
	manilaDriver    = "nfs.manila.csi.openstack.org"
	// fenceLimit is the time limit of the controller for one call of a driver, and unfenceLimit that
	// of Rook, which then compares the message.
	fenceLimit   = 3 * time.Minute
	unfenceLimit = time.Minute
)

// A static PersistentVolume contains the ID of the access rule that the fence replaces, and nothing
// in the cloud says that its share belongs to the cluster.
func TestFencedNodeLosesItsAccessUntilItIsUnfenced(t *testing.T) {
	t.Run("claim", func(t *testing.T) {
		use(t).mustFence("share", pods.ClaimSpec(pods.Manila()))
	})
	t.Run("static PersistentVolume", func(t *testing.T) {
		x := use(t)
		x.mustFence("static", x.staticClaim("static"))
	})
}

// mustFence fences and unfences a node that has mounted the share of a claim. Fencing does not end
// a mount that exists: the server of the share refuses its requests. The stand-in of NFS checks the
// access only when it mounts, so the test also reads it in the cloud.
func (x *test) mustFence(name string, claim corev1.PersistentVolumeClaimSpec) {
	x.T.Helper()
	const lost, other = "devcluster-node-1", "devcluster-node-2"
	create := func(pod, node string) { x.Create(pod, onNode(node, pods.Spec(pods.Sleep, name))) }
	v := x.mount(name, claim, onNode(lost, pods.Spec(pods.Sleep, name)))
	create(name+"-other", other)
	x.Running(name + "-other")
	x.start(&v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NetworkFenceClassSpec{Provisioner: manilaDriver},
	})
	clients := x.clients(name, lost, other)
	before, metadata := x.rules(v), x.metadata(v)
	interrupted := x.watchAccess(v, clients[other])

	fence := &v1alpha1.NetworkFence{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NetworkFenceSpec{
			NetworkFenceClassName: name, FenceState: v1alpha1.Fenced,
			Cidrs: []string{clients[lost].String()},
		},
	}
	x.start(fence)
	x.awaitFence(fence, metav1.ConditionTrue, fenceLimit)
	x.mustHaveAccess(v, clients[lost], "")
	x.mustHaveAccess(v, clients[other], "rw")
	create(name+"-late", lost)
	x.awaitRefusedMount(name + "-late")
	create(name+"-late-other", other)
	x.Running(name + "-late-other")

	x.setState(fence, v1alpha1.Unfenced)
	x.awaitFence(fence, metav1.ConditionFalse, unfenceLimit)
	x.mustHaveAccess(v, clients[lost], "rw")
	x.mustHaveRules(v, before)
	assert.Check(x.T, is.DeepEqual(metadata, x.metadata(v)), "metadata of the share")
	x.Running(name + "-late")
	create(name+"-again", lost)
	x.Running(name + "-again")
	x.Must(interrupted())
}

// metadata returns the metadata of a share.
func (x *test) metadata(v *volume) map[string]string {
	x.T.Helper()
	share, err := shares.Get(x.T.Context(), x.manila(), v.id).Extract()
	x.Must(err)
	return share.Metadata
}

// setState changes the state of a NetworkFence.
func (x *test) setState(fence *v1alpha1.NetworkFence, state v1alpha1.FenceState) {
	x.T.Helper()
	x.Must(x.client.Patch(x.T.Context(), fence, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec": {"fenceState": "`+state+`"}}`))))
}

// clients returns the networks of nodes that CSIAddonsNodes report for a NetworkFenceClass.
func (x *test) clients(class string, nodes ...string) map[string]netip.Prefix {
	x.T.Helper()
	found := map[string]netip.Prefix{}
	x.Eventually("the CSIAddonsNodes contain the addresses of the nodes", func() error {
		var list v1alpha1.CSIAddonsNodeList
		if err := x.client.List(x.T.Context(), &list, client.InNamespace(manilaNamespace)); err != nil {
			return err
		}
		for _, node := range list.Items {
			for _, s := range node.Status.NetworkFenceClientStatus {
				if s.NetworkFenceClassName != class {
					continue
				}
				for _, details := range s.ClientDetails {
					network, err := netip.ParsePrefix(strings.Join(details.Cidrs, ","))
					if err != nil {
						return err
					}
					found[details.ID] = network
				}
			}
		}
		for _, node := range nodes {
			if !found[node].IsValid() {
				return fmt.Errorf("the addresses are %v", found)
			}
		}
		return nil
	})
	return found
}

// rules returns the access rules of a share, as Manila reports them.
func (x *test) rules(v *volume) []shareaccessrules.ShareAccess {
	x.T.Helper()
	rules, err := shareaccessrules.List(x.T.Context(), x.manila(), v.id).Extract()
	x.Must(err)
	return rules
}

// mustHaveRules checks that a share has the access rules that it had before a fence.
func (x *test) mustHaveRules(v *volume, before []shareaccessrules.ShareAccess) {
	x.T.Helper()
	ignored := cmpopts.IgnoreFields(shareaccessrules.ShareAccess{}, "ID", "CreatedAt", "UpdatedAt")
	if diff := cmp.Diff(before, x.rules(v), ignored); diff != "" {
		x.T.Errorf("access rules of share %s after the fence (-want +got):\n%s", v.id, diff)
	}
}

// mustHaveAccess checks what a node may do with a share in the cloud: rw, ro or nothing.
func (x *test) mustHaveAccess(v *volume, node netip.Prefix, want string) {
	x.T.Helper()
	level, found := x.simulator().ShareAccess(v.id, node.Addr())
	if !found || level != want {
		x.T.Errorf("node %s has the access %q to share %s, want %q", node, level, v.id, want)
	}
}

// watchAccess checks the access of a node to a share many times a second, until the caller calls
// the result, which returns an error if the node had no access meanwhile.
func (x *test) watchAccess(v *volume, node netip.Prefix) func() error {
	stop, result := make(chan struct{}), make(chan error, 1)
	cloud := x.simulator()
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for checks := 1; ; checks++ {
			if level, _ := cloud.ShareAccess(v.id, node.Addr()); level != "rw" {
				result <- fmt.Errorf("node %s had the access %q to share %s", node, level, v.id)
				return
			}
			select {
			case <-stop:
				x.T.Logf("node %s had access in %d of %d checks", node, checks, checks)
				result <- nil
				return
			case <-x.T.Context().Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() error {
		close(stop)
		return <-result
	}
}

// awaitFence waits until a NetworkFence has succeeded, and its condition has a status.
func (x *test) awaitFence(
	fence *v1alpha1.NetworkFence, want metav1.ConditionStatus, limit time.Duration,
) {
	x.T.Helper()
	message := map[metav1.ConditionStatus]string{
		metav1.ConditionTrue:  "fencing operation successful",
		metav1.ConditionFalse: "unfencing operation successful",
	}[want]
	what := "condition Fenced of NetworkFence " + fence.Name + " is " + string(want)
	x.Within(limit, what, func() error {
		err := x.client.Get(x.T.Context(), client.ObjectKeyFromObject(fence), fence)
		s := fence.Status
		if err == nil && !(meta.IsStatusConditionPresentAndEqual(s.Conditions, "Fenced", want) &&
			s.Result == v1alpha1.OperationSucceeded && s.Message == message) {
			err = fmt.Errorf("the status is %+v", s)
		}
		return err
	})
}

// awaitRefusedMount waits until a pod does not start because the server refuses the mount.
func (x *test) awaitRefusedMount(name string) {
	x.T.Helper()
	x.Eventually("pod "+name+" cannot mount the share", func() error {
		pod, err := x.Pods().Get(x.T.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodPending {
			x.T.Fatalf("pod %s is %s", name, pod.Status.Phase)
		}
		if err := x.Describe(pod); !strings.Contains(err.Error(), "access denied by server") {
			return errors.Join(errors.New("no event contains that"), err)
		}
		return nil
	})
}
