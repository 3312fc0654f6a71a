//go:build integration && long

package csiaddons

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// TestStatusIsWhatOtherProgramsRead reads what the tests of kubernetes-csi-addons read in jobs, and
// what these tests and Rook read in NetworkFences.
func TestStatusIsWhatOtherProgramsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := fenceDriver("manila")
	d.reclaims, d.onNode = reclaims{online}, answers(9, 1, nil)
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), d)
	go func() {
		for t.Context().Err() == nil {
			select {
			case <-d.fenced:
			case <-d.unfenced:
			case <-t.Context().Done():
			}
		}
	}()
	w.addFenceClass("shares", v1alpha1.StorageNetworksParameter, "172.16.0.0/16")
	w.addVolume("used", "manila", "worker-1")
	w.addVolume("unused", "manila")
	w.startController("--driver-namespaces=manila=" + driverNamespace)

	const fenced, unfenced = v1alpha1.Fenced, v1alpha1.Unfenced
	for _, class := range []string{"", "shares"} {
		for row, states := range [][]v1alpha1.FenceState{
			{fenced},
			{unfenced},
			{fenced, unfenced},
			{unfenced, fenced},
			{fenced, unfenced, fenced, unfenced},
		} {
			name := fmt.Sprintf("row%d%s", row, class)
			for _, state := range states {
				w.setState(name, class, state)
			}
			w.deleteFence(name)
		}
	}
	w.setState("lost", "", fenced)
	w.setState("other", "", fenced)
	w.setState("lost", "", unfenced) // while another NetworkFence fences the client
	w.deleteFence("lost")
	w.setState("other", "", unfenced)

	for claim, want := range map[string]v1alpha1.OperationResult{
		"used": v1alpha1.OperationSucceeded, "unused": v1alpha1.OperationSucceeded,
		"missing": v1alpha1.OperationFailed,
	} {
		job := newJob(claim, claim)
		job.Spec.RetryDeadlineSeconds = ptr.To[int64](5)
		w.create(job)
		got := w.awaitEnd(claim).Status
		success := strings.HasPrefix(got.Message, "Reclaim Space operation successfully completed.")
		assert.Check(t, got.Result == want && success == (want == v1alpha1.OperationSucceeded),
			"the job of claim %s has the status %+v", claim, got)
	}
}

// setState creates a NetworkFence of a class or of the driver, or changes its state, and waits for
// the message of this state.
func (w *world) setState(name, class string, state v1alpha1.FenceState) {
	w.Helper()
	f := &v1alpha1.NetworkFence{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NetworkFenceSpec{
			NetworkFenceClassName: class, FenceState: state, Cidrs: []string{"10.0.0.1/32"},
		},
	}
	if class == "" {
		f.Spec.Driver, f.Spec.Secret = "manila", &v1alpha1.SecretSpec{}
	}
	if err := w.client.Create(w.Context(), f); err != nil { // it exists
		w.must(w.client.Patch(w.Context(), f, client.RawPatch("application/merge-patch+json",
			[]byte(`{"spec": {"fenceState": "`+state+`"}}`))))
	}
	message := map[v1alpha1.FenceState]string{
		v1alpha1.Fenced:   "fencing operation successful",
		v1alpha1.Unfenced: "unfencing operation successful",
	}[state]
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(f), f)
		return f.Status.Message == message && f.Status.Result == v1alpha1.OperationSucceeded, err
	}, name, message, &f.Status)
}
