//go:build e2e

package promises

import "github.com/openstack-csi/csi-operator/test/e2e/pods"

// writeInStatefulSet creates a StatefulSet with one pod that writes records to a claim of its own.
func (x *test) writeInStatefulSet(name string, of pods.Class) *writer {
	x.T.Helper()
	x.CreateStatefulSet(pods.StatefulSet(name, writeRecords, of))
	return x.follow(name + "-0")
}

// mustHaveWrittenInStatefulSet deletes a StatefulSet, and checks its records in a new pod.
func (x *test) mustHaveWrittenInStatefulSet(w *writer, name string) {
	x.T.Helper()
	x.Must(x.RemoveStatefulSet(x.T.Context(), name))
	x.mustHaveWritten(w, "data-"+name+"-0")
}
