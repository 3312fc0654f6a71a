//go:build integration && long

package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// What kstatus says.
const (
	current    = "Current"
	inProgress = "InProgress"
	failed     = "Failed"
)

// TestKstatusReadsTheStateOfDriver asks the library kstatus about a CinderDriver and a ManilaDriver
// after each change. A driver is never current between a change of its spec and the last pod of
// that change. The definitions have no rules about texts, so that the operators find a wrong field,
// which the API server would refuse. Each driver has a cloud, and credentials, of its own.
func TestKstatusReadsTheStateOfDriver(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	k.run(`sed -i 's/rule: self.matches(.*/rule: "true"/' "$RELEASE/crds.yaml"
for driver in cinder manila; do
    sed -i "s/openstack-credentials/$driver-credentials/" "$RELEASE/$driver.yaml"
done`)
	k.run(k.commands("Install the Manila operator")[0])
	for driver, specs := range map[string][3]string{
		"cinder": {
			`{"blockStorage": {"nodeVolumeAttachLimit": 100}}`, `{"logLevel": "Trace"}`,
			`{"logLevel": "Normal", "blockStorage": {"nodeVolumeAttachLimit": 99}}`,
		},
		"manila": {`{"logLevel": "Trace"}`, `{"logLevel": "Debug"}`, `{"logLevel": "Normal"}`},
	} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			startKstatus(t, k, driver).readsStates(specs)
		})
	}
}

// readsStates makes all changes. Each of the specs needs other pods.
func (k *kstatus) readsStates(specs [3]string) {
	k.t.Helper()
	var stop func()
	down := simulator.Fault{Mode: simulator.Unreachable}
	right := k.cloud.CloudsYAML(simulator.Clouds{})
	up := func() { k.must(k.cloud.ClearFaults()) }
	outage := func() {
		_, err := k.cloud.SetFault(down)
		k.must(err)
	}

	k.expect(inProgress, "", func() {})
	k.expect(inProgress, "InvalidCredentials", func() { stop = k.startOperator(k.operator.Driver) })
	refused := func() {
		k.logsInWith(bytes.Replace(right, []byte("password: "), []byte("password: wrong"), 1))
	}
	k.expect(failed, "AuthenticationFailed", refused)
	k.expect(inProgress, "CloudUnreachable", func() { outage(); k.logsInWith(right) })
	if k.operator.Driver == "manila" {
		k.expectDisabled(up)
	} else {
		k.expect(current, "AsExpected", up)
	}

	k.rollsOut(`{"logLevel": "Debug"}`)
	k.rollsOut(specs[0])
	k.rollsOut(specs[1], specs[2])
	stop()
	k.needPods()
	k.patch(`{"logLevel": "Debug"}`)
	k.expect(current, "AsExpected", func() { stop = k.startOperator(k.operator.Driver) })

	k.expect(failed, "AuthenticationFailed", refused)
	k.expect(current, "AsExpected", func() { k.logsInWith(right) })
	if k.operator.Driver == "manila" {
		k.expectDisabled(func() {})
	}
	k.expect(current, "CloudUnreachable", outage)
	k.rollsOut(`{"logLevel": "Normal"}`)
	up()
	k.expect(current, "Unmanaged", func() { k.patch(`{"managementState": "Unmanaged"}`) })
	k.expect(current, "AsExpected", func() { k.patch(`{"managementState": "Managed"}`) })
	k.expect(failed, "Invalid", func() { k.patch(`{"types": {"include": ["["]}}`) })
	k.expect(current, "AsExpected", func() { k.patch(`{"types": null}`) })
}

// expectDisabled makes a change while the cloud offers no Manila, and then offers it again. Nobody
// waits for a driver that only another cloud needs. Cinder is needed in each cloud.
func (k *kstatus) expectDisabled(change func()) {
	k.t.Helper()
	k.expect(current, disabledReason, func() {
		k.cloud.RemoveFromCatalog("sharev2")
		k.cloud.RevokeTokens() // the catalog is part of a token
		change()
	})
	k.expect(current, "AsExpected", func() { k.cloud.RestoreToCatalog("sharev2") })
}

// disabledReason is the reason of Ready of a driver that is not needed.
const disabledReason = "DriverDisabled"

// kstatus asks the library about the object of a driver.
type kstatus struct {
	*plainKubernetes

	drivers dynamic.ResourceInterface
	changes watch.Interface
	objects *json.Encoder
	answers *bufio.Scanner
	// said is the last answer, and generation and because what the object and its condition Ready had
	// then.
	said, because string
	generation    int64
	// needed is the generation that each workload must have when the driver is current.
	needed map[string]int64
}

// startKstatus starts a cloud, and the program that contains the library. The operator of the
// driver will probe OpenStack each second.
func startKstatus(t *testing.T, on *plainKubernetes, driver string) *kstatus {
	t.Helper()
	own := *on
	own.scope = &scope{t: t}
	own.cloud = own.startCloud()
	k := &kstatus{plainKubernetes: &own, needed: map[string]int64{}}
	operators, err := fixtures.KubernetesOperators([]string{driver})
	k.must(err)
	k.operator = operators[0]
	k.run(`kubectl apply -f "$RELEASE/` + driver + `.yaml"`)
	k.run("kubectl patch deployment --namespace=openstack-csi --type=json --patch='" +
		`[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", ` +
		`"value": "--poll-interval=1s"}]' ` + k.operator.Name)
	program := exec.CommandContext(k.ctx(), filepath.Join(shared.Bin, "kstatus"))
	in, err := program.StdinPipe()
	k.must(err)
	out, err := program.StdoutPipe()
	k.must(err)
	k.must(program.Start())
	t.Cleanup(func() { _ = program.Wait() }) // the context of the test has ended
	k.objects, k.answers = json.NewEncoder(in), bufio.NewScanner(out)
	k.drivers = k.cluster.dynamic.Resource(schema.GroupVersionResource{
		Group: "csi.openstack.org", Version: "v1alpha1", Resource: driver + "drivers",
	})
	k.changes, err = k.drivers.Watch(k.ctx(), metav1.ListOptions{})
	k.must(err)
	return k
}

// ask returns what kstatus says about an object.
func (k *kstatus) ask(object *unstructured.Unstructured) string {
	k.t.Helper()
	k.must(k.objects.Encode(object))
	assert.Assert(k.t, k.answers.Scan(), "kstatus has ended")
	return k.answers.Text()
}

func (k *kstatus) logsInWith(clouds []byte) {
	k.t.Helper()
	secret := applycorev1.Secret(k.operator.Driver+"-credentials", "openstack-csi").
		WithData(map[string][]byte{"clouds.yaml": clouds})
	_, err := k.cluster.kube.CoreV1().Secrets("openstack-csi").
		Apply(k.ctx(), secret, metav1.ApplyOptions{FieldManager: "test", Force: true})
	k.must(err)
}

func (k *kstatus) patch(spec string) {
	k.t.Helper()
	_, err := k.drivers.Patch(k.ctx(), k.operator.ClusterCSIDriver, types.MergePatchType,
		[]byte(`{"spec": `+spec+`}`), metav1.PatchOptions{})
	k.must(err)
}

// rollsOut changes the spec so that all pods are replaced.
func (k *kstatus) rollsOut(specs ...string) {
	k.t.Helper()
	k.needPods()
	k.expect(current, "", func() {
		for _, spec := range specs {
			k.patch(spec)
		}
	})
}

// needPods says that the next change of the spec replaces all pods.
func (k *kstatus) needPods() {
	k.t.Helper()
	for _, workload := range k.workloads() {
		k.needed[workload.GetName()] = workload.GetGeneration() + 1
	}
}

// workloads returns the Deployment and the DaemonSets of the driver.
func (k *kstatus) workloads() []*unstructured.Unstructured {
	k.t.Helper()
	var found []*unstructured.Unstructured
	resource := "deployments"
	for _, name := range k.operator.Workloads {
		workload, err := k.cluster.dynamic.Resource(schema.GroupVersionResource{
			Group: "apps", Version: "v1", Resource: resource,
		}).Namespace("openstack-csi").Get(k.ctx(), name, metav1.GetOptions{})
		k.must(err)
		found, resource = append(found, workload), "daemonsets"
	}
	return found
}

// expect makes a change, and reads what kstatus says until it says want, and Ready has the reason,
// if it is not "". Before that it may only say so that tools wait, or what it said about the same
// spec. Without a change of the spec, a driver that is current and needed stays so.
func (k *kstatus) expect(want, reason string, change func()) {
	k.t.Helper()
	before, of, because := k.said, k.generation, k.because
	change()
	object, err := k.drivers.Get(k.ctx(), k.operator.ClusterCSIDriver, metav1.GetOptions{})
	k.must(err)
	target := object.GetGeneration()
	ctx, cancel := context.WithTimeout(k.ctx(), 3*time.Minute)
	defer cancel()
	for {
		now := k.next(ctx)
		isBefore := now.GetGeneration() == of && k.said == before
		mayWait := k.said == inProgress && (before != current || target != of ||
			because == disabledReason)
		assert.Assert(k.t, k.said == want || isBefore || mayWait, "kstatus says %s before %s", k.said,
			want)
		if k.said == want && k.generation == target && (reason == "" || k.because == reason) {
			return
		}
	}
}

// next returns the next state of the object. If kstatus calls it current, all pods are of its spec.
func (k *kstatus) next(ctx context.Context) *unstructured.Unstructured {
	k.t.Helper()
	var now *unstructured.Unstructured
	select {
	case event := <-k.changes.ResultChan():
		object, ok := event.Object.(*unstructured.Unstructured)
		assert.Assert(k.t, ok, "the watch has ended with %v", event.Object)
		now = object
	case <-ctx.Done():
		k.t.Fatalf("kstatus still says %s of generation %d", k.said, k.generation)
	}
	k.said, k.generation, k.because = k.ask(now), now.GetGeneration(), k.reason(now)
	observed, _, _ := unstructured.NestedInt64(now.Object, "status", "observedGeneration")
	k.t.Logf("generation %d, observed %d: %s, %s", k.generation, observed, k.said, k.because)
	if k.said != current || k.because == "Unmanaged" || k.because == disabledReason {
		return now
	}
	for _, workload := range k.workloads() {
		said := k.ask(workload)
		latest, err := k.drivers.Get(k.ctx(), now.GetName(), metav1.GetOptions{})
		k.must(err)
		if latest.GetGeneration() != k.generation {
			continue // a later change
		}
		assert.Check(k.t, said == current && workload.GetGeneration() >= k.needed[workload.GetName()],
			"generation %d is current, but %s %s is %s", k.generation, workload.GetKind(),
			workload.GetName(), said)
	}
	return now
}

func (k *kstatus) reason(object *unstructured.Unstructured) string {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	k.must(err)
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "Ready" {
			return fmt.Sprint(c["reason"])
		}
	}
	return ""
}
