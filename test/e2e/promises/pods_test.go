//go:build e2e

package promises

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

const (
	namespace = pods.Namespace
	timeout   = pods.Timeout
)

// test is a running test with its cluster.
type test struct{ *pods.Test }

// write creates a claim and a pod that writes records to it.
func (x *test) write(name string, of pods.Class) *writer {
	x.T.Helper()
	x.Claim(name, pods.ClaimSpec(of))
	x.Create(name, pods.Spec(writeRecords, name))
	return x.follow(name)
}

// mustHaveWritten ends the pod of a writer, and checks the records in a new pod.
func (x *test) mustHaveWritten(w *writer, claim string) {
	x.T.Helper()
	x.Must(x.Remove(x.T.Context(), w.pod))
	w.mu.Lock()
	last, err := w.last, w.err
	w.mu.Unlock()
	x.Must(err)
	mustContain(x.T, x.read(claim), last)
}

// read returns the records of a claim.
func (x *test) read(claim string) string {
	x.T.Helper()
	name := claim + "-reader"
	x.Create(name, pods.Spec("cat "+records, claim))
	x.Eventually("pod "+name+" has read", func() error {
		pod, err := x.Pods().Get(x.T.Context(), name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodSucceeded {
			err = x.Describe(pod)
		}
		return err
	})
	return x.Output(name)
}
