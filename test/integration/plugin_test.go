//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/kubectl"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// viewer is a user with the ClusterRole of assets/kubectl.
const viewer = "viewer-of-drivers"

// TestPluginWorksWithItsClusterRole runs the plugin as a user with no other permissions.
func TestPluginWorksWithItsClusterRole(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasCondition(ready, opv1.ConditionTrue, "") })
	e.createViewer()
	e.createSidecarLeases("gone")
	e.createClaim()

	output := e.mustRun(1, "status", "-o", "json")
	assert.Check(e.t, !strings.Contains(output, "notVisible") && strings.Contains(output, `"leads"`),
		"the operator does not lead, or objects are not visible:\n%s", output)
	const cause = "no provisioner leads, so new claims wait: Lease manila-csi-openstack-org belongs " +
		"to pod gone, which is gone."
	output = strings.Join(strings.Fields(e.mustRun(1, "why", "pvc/plugin", "-n", "default")), " ")
	assert.Check(e.t, strings.Contains(output, cause) && !strings.Contains(output, "Not visible"),
		"want %q in:\n%s", cause, output)
	for _, object := range []string{
		"deployment/" + e.subject.Workloads[0], "ds/" + e.subject.Workloads[1],
	} {
		if output := e.mustRun(0, "why", object); !strings.Contains(output, "Manila answers") ||
			strings.Contains(output, "Not visible") {
			e.t.Errorf("why %s:\n%s", object, output)
		}
	}
	e.mustRun(1, "why", "clustercsidriver/"+e.subject.ClusterCSIDriver)
	e.gathersNoSecrets()
	leader, err := e.controllerPod()
	e.must(err)
	e.createSidecarLeases(leader)
	e.mustRun(0, "status", "manila", "--wait")
	e.stopOperator() // it releases its Lease before it ends
	output = strings.Join(strings.Fields(e.mustRun(1, "status", "manila")), " ")
	assert.Check(e.t, strings.Contains(output, "the operator does not run"),
		"without the operator the output is:\n%s", output)
}

// TestKubectlCompletesThePlugin runs kubectl as a shell does. It looks for the plugin, and for the
// program for its completion, in PATH.
func TestKubectlCompletesThePlugin(t *testing.T) {
	t.Parallel()
	completion, err := filepath.Abs("../../cmd/kubectl-openstack_csi")
	assert.NilError(t, err)
	output, err := guide.Output(t.Context(), "kubectl __complete openstack-csi why ''", "PATH="+
		strings.Join([]string{shared.Bin, shared.Kubernetes, completion, os.Getenv("PATH")}, ":"))
	assert.Check(t, err == nil && strings.Contains("\n"+output, "\npvc/\n"),
		"want pvc/, error %v:\n%s", err, output)
}

// gathersNoSecrets runs must-gather as an administrator, and returns the folder.
func (e *env) gathersNoSecrets(flags ...string) string {
	e.t.Helper()
	dir := filepath.Join(e.t.TempDir(), "gathered")
	var output bytes.Buffer
	if code := kubectl.Main(e.ctx(), append(flags, "must-gather", dir,
		"--kubeconfig="+e.guest.dir.AdminKubeconfig(),
	), kubectl.Streams{Out: &output, Err: &output}); code != 0 && // simulated nodes have no logs
		!strings.Contains(output.String(), "the folder is incomplete: ") {
		e.t.Fatalf("must-gather: exit code %d:\n%s", code, &output)
	}
	if strings.Contains(output.String(), "Not visible") {
		e.t.Errorf("the administrator does not see all:\n%s", &output)
	}
	search := func(where, text string) {
		if leaked := found(text, slices.Concat(e.secrets, e.proxyPasswords)); len(leaked) > 0 {
			e.t.Errorf("%s contains the secrets %v", where, leaked)
		}
	}
	search("the output", output.String())
	files := 0
	e.must(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		search(path, string(content))
		return err
	}))
	assert.Check(e.t, files >= 20, "must-gather wrote only %d files", files)
	return dir
}

// mustRun runs the plugin as the viewer. It fails the test if the exit code differs.
func (e *env) mustRun(code int, args ...string) string {
	e.t.Helper()
	var stdout, stderr bytes.Buffer
	got := kubectl.Main(e.ctx(), append(args, "--kubeconfig="+e.guest.dir.AdminKubeconfig(),
		"--as="+viewer, "--timeout=2m"), kubectl.Streams{Out: &stdout, Err: &stderr})
	if got != code {
		e.t.Errorf("%v: exit code %d, want %d:\n%s%s", args, got, code, &stdout, &stderr)
	}
	return stdout.String()
}

// apply writes objects to a cluster, and deletes them when the test ends.
func (e *env) apply(to *cluster, text string) (remove func(context.Context) error) {
	e.t.Helper()
	writer, err := fixtures.NewWriter(to.config)
	e.must(err)
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		e.must(yaml.Unmarshal([]byte(document), &object.Object))
		e.must(writer.Write(e.ctx(), object))
		objects = append(objects, object)
	}
	remove = func(ctx context.Context) (err error) {
		for _, object := range objects {
			err = errors.Join(err, writer.Delete(ctx, object))
		}
		return err
	}
	e.afterwards(remove)
	return remove
}

// createViewer creates the ClusterRole of assets/kubectl, and binds it to the viewer.
func (e *env) createViewer() {
	e.t.Helper()
	role, err := os.ReadFile(filepath.Join("..", "..", "assets", "kubectl", "clusterrole.yaml"))
	e.must(err)
	e.apply(e.guest, string(role)+`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: openstack-csi-viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: openstack-csi-viewer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: `+viewer+`}]
`)
}

// createSidecarLeases plays the sidecars of Manila, which no simulated pod runs.
func (e *env) createSidecarLeases(holder string) {
	e.t.Helper()
	for _, sidecar := range []diagnosis.Sidecar{
		diagnosis.Provisioner, diagnosis.Resizer, diagnosis.Snapshotter,
	} {
		e.apply(e.guest, fmt.Sprintf(`
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {namespace: %s, name: %s}
spec: {holderIdentity: %q, leaseDurationSeconds: 3600, renewTime: %q}
`, e.subject.OperandNamespace, sidecar.Lease(e.subject.ClusterCSIDriver), holder,
			time.Now().UTC().Format(metav1.RFC3339Micro)))
	}
}

// createClaim creates a claim that nobody serves.
func (e *env) createClaim() {
	e.t.Helper()
	e.apply(e.guest, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {namespace: default, name: plugin}
spec:
  storageClassName: csi-manila-default
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
`)
	e.eventually(soon, func() error {
		claim, err := e.guest.kube.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).
			Get(e.ctx(), "plugin", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return checkEqual(corev1.ClaimPending, claim.Status.Phase)
	})
}

// controllerPod returns the name of a pod of the driver's Deployment.
func (e *env) controllerPod() (string, error) {
	deployment, err := e.deployment()
	if err != nil {
		return "", err
	}
	pods, err := e.management.kube.CoreV1().Pods(deployment.Namespace).List(e.ctx(),
		metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(deployment.Spec.Selector)})
	if err != nil || len(pods.Items) == 0 {
		return "", fmt.Errorf("the Deployment has no pods: %w", err)
	}
	return pods.Items[0].Name, nil
}

// The administrator of a guest cluster does not see the hosted control plane.
func TestPluginNamesWhatAGuestClusterDoesNotShow(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Flavour: flavour.HyperShift})
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasCondition(ready, opv1.ConditionTrue, "") })
	e.createViewer()
	e.createSidecarLeases("unknown")
	e.createClaim()
	management := []string{
		"--management-namespace=" + hostedNamespace,
		"--management-kubeconfig=" + e.management.dir.AdminKubeconfig(),
	}
	for code, command := range [][]string{ // the claim waits, because no provisioner runs
		{"status", "manila"}, {"why", "pvc/plugin", "--namespace=default"},
	} {
		output := e.mustRun(code, command...)
		assert.Check(e.t, strings.Contains(output, "Not visible: hosted control plane"),
			"the output is:\n%s", output)
		output = e.mustRun(1, append(command, management...)...)
		if !strings.Contains(output, "which is gone") || strings.Contains(output, "Not visible") {
			e.t.Errorf("with the management cluster the output is:\n%s", output)
		}
	}
	why := []string{"why", "deploy/" + e.subject.Workloads[0]}
	output := e.mustRun(0, append(why, management...)...)
	if !strings.Contains(output, "Manila answers") { // the ClusterCSIDriver is in the guest cluster
		e.t.Errorf("why a Deployment of the management cluster:\n%s", output)
	}
	states := make(chan string, 1)
	readStates := e.allGuests(states)
	go readStates()
	dir := e.gathersNoSecrets(management...)
	const namespace = "management/namespaces/" + hostedNamespace
	for _, file := range []string{"apps/deployments.yaml", "core/secrets.yaml"} {
		_, err := os.Stat(filepath.Join(dir, namespace, file))
		e.must(err)
	}
	const want = "  !!  default/silent: the guest cluster did not answer within 10s\n" +
		"  ok  " + hostedNamespace + "/" + guestName + "\n"
	got := <-states
	for range 5 { // on a busy machine, the guest cluster may need more than 10 s, too
		if got != want {
			readStates()
			got = <-states
		}
	}
	assert.Equal(t, got, want)
}

// allGuests returns a function that asks for the states of a guest cluster without a problem, and
// of one that does not answer, which takes 10 s. It sends the output.
func (e *env) allGuests(output chan<- string) func() {
	e.t.Helper()
	leader, err := e.controllerPod()
	e.must(err)
	e.createSidecarLeases(leader)
	e.must(e.guest.patch(e.ctx(), collection{resource("storage.k8s.io", "storageclasses"), ""},
		defaultClass, fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, defaultAnnotation)))
	silent, err := (&net.ListenConfig{}).Listen(e.ctx(), "tcp", "127.0.0.1:0")
	e.must(err)
	e.t.Cleanup(func() { _ = silent.Close() })
	e.apply(e.management, fmt.Sprintf(`
apiVersion: hypershift.openshift.io/v1beta1
kind: HostedControlPlane
metadata: {namespace: default, name: silent}
status: {kubeConfig: {name: silent, key: kubeconfig}}
---
apiVersion: v1
kind: Secret
metadata: {namespace: default, name: silent}
stringData:
  kubeconfig: >-
    {current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
    users: [{name: a, user: {token: t}}], clusters: [{name: a, cluster: {server: 'https://%s'}}]}
`, silent.Addr()))
	return func() {
		var stdout, stderr bytes.Buffer
		kubectl.Main(e.ctx(), []string{
			"status", "manila", "--all-guests",
			"--kubeconfig=" + e.management.dir.AdminKubeconfig(),
		}, kubectl.Streams{Out: &stdout, Err: &stderr})
		output <- stdout.String() + stderr.String()
	}
}
