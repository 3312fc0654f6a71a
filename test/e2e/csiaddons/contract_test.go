//go:build e2e

package csiaddons

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// The time limits of the tests of kubernetes-csi-addons, and of Rook.
const (
	jobLimit      = 10 * time.Minute
	firstJobLimit = 3 * time.Minute
	// statusLimit is for a status that another change causes.
	statusLimit = time.Minute
	fenceLimit  = 5 * time.Minute
	rookLimit   = time.Minute
)

// Each row reads what one test of kubernetes-csi-addons reads.
func TestReclaimSpaceContract(t *testing.T) {
	x := use(t)
	class := x.immediateClass()
	const write = "dd if=/dev/zero bs=1M count=100 of="
	for _, row := range []struct {
		name  string
		block bool
		// script is that of the pod that uses the volume. Without it, nothing uses the volume.
		script string
		// message is a part of the message.
		message string
	}{
		{name: "row 1 written", script: write + pods.DataPath + "/file", message: "successfully"},
		{name: "row 2 unused"},
		{name: "row 3 mounted", script: "true"},
		{name: "row 4 written block", block: true, script: write + device, message: "successfully"},
		{name: "row 5 unused block", block: true},
		{name: "row 6 mounted block", block: true, script: "true"},
	} {
		t.Run(row.name, func(t *testing.T) {
			x, name := use(t), strings.ReplaceAll(row.name, " ", "-")
			pod := x.bind(name, class, row.block)
			if row.script != "" {
				pod.Containers[0].Command = []string{"sh", "-c", row.script + " && sync; " + sleep}
				x.Create(name, pod)
				x.running(name)
			}
			job := x.reclaim(name)
			x.Must(x.Remove(t.Context(), name))
			x.mustSucceed(job, row.message)
		})
	}
	t.Run("row 7 no claim", func(t *testing.T) {
		if got := use(t).reclaim("row-7").Status; got.Result != v1alpha1.OperationFailed {
			t.Errorf("the status is %+v", got)
		}
	})
	for name, block := range map[string]bool{"row 8 schedule": false, "row 9 schedule block": true} {
		t.Run(name, func(t *testing.T) {
			x, name := use(t), strings.ReplaceAll(name, " ", "-")
			x.bind(name, class, block)
			cron, job := x.schedule(name)
			x.mustSucceed(job, "")
			assert.Check(t, is.Equal(job.Spec.Target.PersistentVolumeClaim, name),
				"the job is for the claim")
			x.Within(statusLimit, "the status contains the time of the schedule", func() error {
				err := x.client.Get(t.Context(), client.ObjectKeyFromObject(cron), cron)
				if err == nil && cron.Status.LastScheduleTime == nil {
					err = fmt.Errorf("the status is %+v", cron.Status)
				}
				return err
			})
		})
	}
}

// immediateClass creates a StorageClass of Cinder that binds claims without a pod.
func (x *test) immediateClass() pods.Class {
	x.T.Helper()
	const name = "immediate"
	classes := x.Cluster.Client.StorageV1().StorageClasses()
	_, err := classes.Create(x.T.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "cinder.csi.openstack.org",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
	}, metav1.CreateOptions{})
	x.Must(err)
	x.CleanUp(func(ctx context.Context) error {
		return classes.Delete(ctx, name, metav1.DeleteOptions{})
	})
	return pods.Class{Name: name, Mode: corev1.ReadWriteOnce}
}

// bind creates a claim, waits until it has a volume, and returns a pod that can use the volume.
func (x *test) bind(name string, class pods.Class, block bool) corev1.PodSpec {
	x.T.Helper()
	claim, pod := pods.ClaimSpec(class), pods.Spec(sleep, name)
	if block {
		useDevice(&claim, &pod)
	}
	x.Claim(name, claim)
	x.Eventually("claim "+name+" is bound", func() error {
		found, err := x.Cluster.Client.CoreV1().PersistentVolumeClaims(pods.Namespace).
			Get(x.T.Context(), name, metav1.GetOptions{})
		if err == nil && found.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("it is %s", found.Status.Phase)
		}
		return err
	})
	return pod
}

// mustSucceed checks the result of a job, and a part of its message.
func (x *test) mustSucceed(job *v1alpha1.ReclaimSpaceJob, message string) {
	x.T.Helper()
	got := job.Status
	if got.Result != v1alpha1.OperationSucceeded || !strings.Contains(got.Message, message) {
		x.T.Errorf("job %s has the status %+v", job.Name, got)
	}
}

// Each row reads what one test of kubernetes-csi-addons reads after each change of the state, and
// also reads the access in the cloud. Rows 10 to 14 name the driver, and rows 15 to 19 the class.
func TestNetworkFenceContract(t *testing.T) {
	x := use(t)
	s := x.shareToFence("contract")
	const fenced, unfenced = v1alpha1.Fenced, v1alpha1.Unfenced
	row := 10
	for _, class := range []string{"", s.class} {
		for _, states := range [][]v1alpha1.FenceState{
			{fenced},
			{unfenced},
			{fenced, unfenced},
			{unfenced, fenced},
			{fenced, unfenced, fenced, unfenced},
		} {
			name := fmt.Sprintf("row-%d", row)
			row++
			t.Run(name, func(t *testing.T) {
				s := s.in(use(t))
				fence := s.fence(name, class, states[0])
				s.awaitSuccess(fence)
				for _, state := range states[1:] {
					s.x.setState(fence, state)
					s.awaitSuccess(fence)
				}
			})
		}
	}
}

// Rook waits for equality of the message, and then deletes the NetworkFence.
func TestRookUnfences(t *testing.T) {
	x := use(t)
	s := x.shareToFence("rook")
	for name, others := range map[string]int{"alone": 0, "another fences": 1} {
		t.Run(name, func(t *testing.T) {
			s := s.in(use(t))
			lost := s.fence("lost", "", v1alpha1.Fenced)
			s.awaitSuccess(lost)
			var other *v1alpha1.NetworkFence
			if others > 0 {
				other = s.fence("other", "", v1alpha1.Fenced)
				s.awaitSuccess(other)
			}
			s.x.setState(lost, v1alpha1.Unfenced)
			s.x.Within(rookLimit, "the message is that of an end", func() error {
				return s.compareMessage(lost)
			})
			s.x.Must(s.x.client.Delete(t.Context(), lost))
			if other != nil {
				s.x.mustHaveAccess(s.volume, s.client, "")
				s.x.setState(other, v1alpha1.Unfenced)
				s.awaitSuccess(other)
			}
			s.x.mustHaveAccess(s.volume, s.client, "rw")
		})
	}
}

// Ramen reads only the result. The controller removes the result of the previous state when it
// starts to work, so the test also waits for the access that belongs to the state.
func TestRamenReadsTheResult(t *testing.T) {
	x := use(t)
	s := x.shareToFence("ramen")
	fence := s.fence("ramen", s.class, v1alpha1.Fenced)
	s.awaitResult(fence, "")
	x.setState(fence, v1alpha1.Unfenced)
	s.awaitResult(fence, "rw")
}

// fencing is a share that a pod uses, and another node, which loses its access.
type fencing struct {
	x      *test
	volume *volume
	class  string
	client netip.Prefix
}

// shareToFence creates a share and a NetworkFenceClass.
func (x *test) shareToFence(name string) fencing {
	x.T.Helper()
	const lost, other = "devcluster-node-1", "devcluster-node-2"
	found := fencing{x: x, class: name}
	found.volume = x.mount(name, pods.ClaimSpec(pods.Manila()), onNode(other, pods.Spec(sleep, name)))
	x.start(&v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NetworkFenceClassSpec{Provisioner: manilaDriver},
	})
	found.client = x.clients(name, lost)[lost]
	return found
}

// in returns the same for a subtest.
func (s fencing) in(x *test) fencing {
	s.x = x
	return s
}

// fence creates a NetworkFence of a class, or of the driver.
func (s fencing) fence(name, class string, state v1alpha1.FenceState) *v1alpha1.NetworkFence {
	s.x.T.Helper()
	spec := v1alpha1.NetworkFenceSpec{
		NetworkFenceClassName: class, FenceState: state, Cidrs: []string{s.client.String()},
	}
	if class == "" {
		spec.Driver, spec.Secret = manilaDriver, &v1alpha1.SecretSpec{}
	}
	fence := &v1alpha1.NetworkFence{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	s.x.start(fence)
	return fence
}

// compareMessage reads a NetworkFence. It returns an error unless its message is that of its state.
func (s fencing) compareMessage(fence *v1alpha1.NetworkFence) error {
	err := s.x.client.Get(s.x.T.Context(), client.ObjectKeyFromObject(fence), fence)
	if err != nil {
		return err
	}
	want := map[v1alpha1.FenceState]string{
		v1alpha1.Fenced:   "fencing operation successful",
		v1alpha1.Unfenced: "unfencing operation successful",
	}[fence.Spec.FenceState]
	if fence.Status.Message != want {
		return fmt.Errorf("the status is %+v", fence.Status)
	}
	return nil
}

// awaitSuccess waits for the message of a state, and checks the result and the access to the share.
func (s fencing) awaitSuccess(fence *v1alpha1.NetworkFence) {
	s.x.T.Helper()
	s.x.Within(fenceLimit, "the message of NetworkFence "+fence.Name+" is that of its state",
		func() error { return s.compareMessage(fence) })
	if fence.Status.Result != v1alpha1.OperationSucceeded {
		s.x.T.Errorf("NetworkFence %s has the status %+v", fence.Name, fence.Status)
	}
	access := "rw"
	if fence.Spec.FenceState == v1alpha1.Fenced {
		access = ""
	}
	s.x.mustHaveAccess(s.volume, s.client, access)
}

// awaitResult waits until a NetworkFence has succeeded and the cloud gives some access.
func (s fencing) awaitResult(fence *v1alpha1.NetworkFence, access string) {
	s.x.T.Helper()
	s.x.Within(fenceLimit, "NetworkFence "+fence.Name+" succeeds", func() error {
		err := s.x.client.Get(s.x.T.Context(), client.ObjectKeyFromObject(fence), fence)
		level, _ := s.x.simulator().ShareAccess(s.volume.id, s.client.Addr())
		if err == nil &&
			(fence.Status.Result != v1alpha1.OperationSucceeded || string(level) != access) {
			err = fmt.Errorf("the access is %q, and the status %+v", level, fence.Status)
		}
		return err
	})
}
