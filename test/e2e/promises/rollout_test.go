//go:build e2e

package promises

import (
	"slices"
	"strings"
	"testing"

	opv1 "github.com/openshift/api/operator/v1"
)

// TestCredentialsReachDriversWithoutInterruptedWrites rotates the credentials in OpenStack and in
// the Secrets, as cloud-credential-operator does. OpenStack then refuses the earlier credentials.
func TestCredentialsReachDriversWithoutInterruptedWrites(t *testing.T) {
	x := use(t, kind{tls: true})
	w := x.write("credentials")
	rolled := slices.DeleteFunc(x.controllers(), func(w workload) bool {
		return w.name != "openstack-cinder-csi-driver-controller"
	})
	x.mustReplacePods(rolled, func() { x.Must(x.Cluster.RotateCredentials(t.Context())) })
	// Only a driver that knows the new credentials creates volumes and shares.
	x.write("credentials-new").mustHaveWritten()
	w.mustBeUndisturbed()
	w.mustHaveWritten()
}

// TestNodePodsAreReplacedWithoutInterruptedWrites changes the log level of the drivers, so that the
// operators replace all their pods.
func TestNodePodsAreReplacedWithoutInterruptedWrites(t *testing.T) {
	x := use(t, kind{tls: true})
	w := x.write("rollout")
	for _, level := range []opv1.LogLevel{opv1.Debug, opv1.Normal} {
		x.mustReplacePods(x.workloads(), func() { x.run(x.setInDrivers("logLevel", string(level))) })
		w.mustBeUndisturbed()
	}
	w.mustHaveWritten()
}

// setInDrivers returns commands that set a field in the spec of the objects of the drivers.
func (x *test) setInDrivers(field, value string) string {
	var commands []string
	for _, o := range x.Cluster.Operators {
		commands = append(commands, "kubectl patch --type=merge -p '{\"spec\": {\""+field+"\": \""+
			value+"\"}}' "+o.Resource+" "+o.ClusterCSIDriver)
	}
	return strings.Join(commands, "\n")
}
