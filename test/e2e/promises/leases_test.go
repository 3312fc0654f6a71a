//go:build e2e

package promises

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestClaimsAreBoundSoonAfterARollout changes the log level of the drivers, so that the operators
// replace the pods of the controllers. The sidecars release their Leases when they end. The Leases
// of killed sidecars must expire: that takes 15 s from the first attempt of a new sidecar, which
// tries again every 5 to 11 s.
func TestClaimsAreBoundSoonAfterARollout(t *testing.T) {
	x := use(t, kind{tls: true})
	classes := map[string]pods.Class{"manila": pods.Manila(), "cinder": pods.Cinder()}
	levels := []opv1.LogLevel{opv1.Debug, opv1.Normal}
	for i, o := range x.Cluster.Operators {
		w := workload{o.OperandNamespace, o.Workloads[0], true}
		x.mustBindAfter(15*time.Second, w, o.Driver+"-after-rollout", classes[o.Driver], func() {
			x.run(x.setInDrivers("logLevel", string(levels[i])))
		})
		x.mustBindAfter(30*time.Second, w, o.Driver+"-after-kill", classes[o.Driver], func() {
			x.killLeaders(w)
		})
	}
}

// A rotation of Cinder's credentials replaces the pods of its controller. The Lease of a sidecar
// that ends without releasing it lasts 137 s on OpenShift.
func TestClaimsAreBoundSoonAfterEachRotation(t *testing.T) {
	x := use(t, kind{tls: true})
	i := slices.IndexFunc(x.Cluster.Operators,
		func(o fixtures.Operator) bool { return o.Driver == "cinder" })
	o := x.Cluster.Operators[i]
	w := workload{o.OperandNamespace, o.Workloads[0], true}
	var took []time.Duration
	for i := range 10 {
		name := fmt.Sprintf("rotation-%d", i)
		took = append(took, x.mustBindAfter(time.Minute, w, name, pods.Cinder(),
			func() { x.Must(x.Cluster.RotateCredentials(t.Context())) }))
	}
	slices.Sort(took)
	assert.Check(t, took[len(took)/2] <= 15*time.Second, "claims were bound after %v", took)
}

// mustBindAfter makes a change that replaces the pods of a controller, and checks how long a claim
// then takes, which it returns.
func (x *test) mustBindAfter(
	longest time.Duration, w workload, name string, of pods.Class, change func(),
) time.Duration {
	x.T.Helper()
	changed := time.Now()
	x.replacePods([]workload{w}, change)
	replaced := time.Now()
	x.Claim(name, pods.ClaimSpec(of))
	x.Create(name, pods.Spec("true", name)) // volumes of Cinder wait for a pod
	x.Eventually("claim "+name+" is bound", func() error {
		claim, err := x.Cluster.Client.CoreV1().PersistentVolumeClaims(namespace).
			Get(x.T.Context(), name, metav1.GetOptions{})
		if err == nil && claim.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return err
	})
	took := time.Since(replaced)
	x.T.Logf("claim %s was bound %v after the change, and %v after the new pod was available", name,
		time.Since(changed).Round(time.Millisecond), took.Round(time.Millisecond))
	assert.Check(x.T, took <= longest,
		"claim %s was bound %v after the new pod was available, want at most %v", name, took, longest)
	return took
}

// killLeaders freezes the sidecars of a controller, so that they release nothing, and deletes their
// pods. The kubelet kills frozen processes. A killed process alone would start again in the same
// pod, and use the Lease of this pod at once.
func (x *test) killLeaders(w workload) {
	x.T.Helper()
	x.freezeLeaders(w)
	for _, pod := range x.podsOf(w) {
		x.run("kubectl delete pod --force --grace-period=0 --wait=false -n " + pod.Namespace + " " +
			pod.Name)
	}
}

// freezeLeaders freezes the sidecars of a controller.
func (x *test) freezeLeaders(w workload) {
	x.T.Helper()
	for _, pod := range x.podsOf(w) {
		for _, c := range pod.Spec.Containers {
			if strings.Contains(strings.Join(c.Args, " "), "--leader-election") {
				x.freeze(pod, c.Name)
			}
		}
	}
}
