//go:build integration && long

package integration

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/stopwatch"
)

// installElsewhere installs the operator of Manila in another namespace, with a short Lease, and
// leaves the permissions of the first one as they are.
const installElsewhere = `sed -e 's/namespace: openstack-csi$/namespace: elsewhere/' \
    -e 's/^  name: manila-csi-driver-operator-clusterrolebinding$/&-elsewhere/' \
    -e 's/leaseDuration: .*/leaseDuration: 6s/' -e 's/renewDeadline: .*/renewDeadline: 4s/' \
    -e 's/retryPeriod: .*/retryPeriod: 1s/' \
    "$RELEASE/manila.yaml" | kubectl apply -f -`

// addsStrayDefinition creates the resource by which the operator recognizes OpenShift, as far as a
// CustomResourceDefinition can.
const addsStrayDefinition = `kubectl apply -f - <<E
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: projectrequests.project.openshift.io
spec:
  group: project.openshift.io
  scope: Cluster
  names: {kind: ProjectRequest, plural: projectrequests}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
E
kubectl wait crd/projectrequests.project.openshift.io --for=condition=Established`

// namesTheDefinition waits until the operator names the CustomResourceDefinition as an old one.
const namesTheDefinition = "kubectl wait maniladriver --all --timeout=1m " +
	`--for=jsonpath='{.status.conditions[?(@.type=="InstallationValid")].reason}'=OldDefinition`

// TestOneInstallationServesTheObject runs operators in two namespaces. The one that starts later
// changes nothing until the first one has ended, and names the commands that give the first one its
// permissions back. Then it takes over, with the recorded cluster ID,
// and the first one changes nothing when it starts again. At first the CustomResourceDefinition is
// of an earlier release, and a stray one is of OpenShift. The namespace refuses pods for a while.
func TestOneInstallationServesTheObject(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	for _, command := range k.commands("Install the Manila operator")[:2] {
		k.run(command)
	}
	k.run(addsStrayDefinition)
	k.run("kubectl annotate crd maniladrivers.csi.openstack.org --overwrite " +
		"csi.openstack.org/revision=0")
	stop := k.startOperator("manila")
	k.awaitAvailable()
	k.run(namesTheDefinition)
	k.explainsRefusedPods()
	k.run(k.commands("Upgrade")[0]) // applies the definitions
	k.run("kubectl wait maniladriver --all --for=condition=InstallationValid --timeout=2m")
	system, err := k.cluster.kube.CoreV1().Namespaces().
		Get(k.ctx(), metav1.NamespaceSystem, metav1.GetOptions{})
	k.must(err)
	k.must(k.servedBy("openstack-csi", string(system.UID)))

	second := *k
	second.dir = paths.Dir(filepath.Join(string(k.dir), "elsewhere"))
	k.repairsPermissions(&second)
	k.run(installElsewhere)
	second.startOperatorIn("manila", "elsewhere")
	k.eventually(func() error { return second.mustSay("OtherInstallation") })
	const patch = "kubectl patch maniladriver nfs.manila.csi.openstack.org --type=merge --patch="
	k.run(patch + `'{"spec": {"clusterID": "mine"}}'`)
	k.run("kubectl wait maniladriver --all --for=condition=InstallationValid=false --timeout=1m")
	k.must(k.servedBy("openstack-csi", string(system.UID)))
	second.mustNotWrite()

	stop()
	k.must(stopwatch.Poll(2*installed, func() { pause(k.t) }, func() error {
		return second.mustSay("InstallationTakenOver")
	}))
	k.eventually(func() error { return k.servedBy("elsewhere", string(system.UID)) })
	k.startOperator("manila")
	k.eventually(func() error { return k.mustSay("OtherInstallation") })
	k.run(patch + `'{"spec": {"replacesClusterID": "` + string(system.UID) + `"}}'`)
	k.eventually(func() error { return k.servedBy("elsewhere", "mine") })
}

// repairsPermissions applies files in another namespace that take the permissions of the first
// operator away, and runs the commands that the second one names.
func (k *plainKubernetes) repairsPermissions(second *plainKubernetes) {
	k.t.Helper()
	k.run("kubectl create namespace elsewhere\n" +
		strings.Replace(installElsewhere, "&-elsewhere", "&", 1))
	stop := second.startOperatorIn("manila", "elsewhere")
	k.eventually(func() error { return second.mustSay("OtherInstallation") })
	stop()
	events, err := k.cluster.kube.CoreV1().Events("elsewhere").
		List(k.ctx(), metav1.ListOptions{FieldSelector: "reason=OtherInstallation"})
	k.must(err)
	repair := regexp.MustCompile(`in namespace openstack-csi has lost its permissions: .* ` +
		`To let it continue, run: (.*)\. To let the one`)
	commands := repair.FindStringSubmatch(events.Items[0].Message)
	assert.Assert(k.t, commands != nil, events.Items[0].Message)
	k.run(commands[1] + "\nkubectl delete events --all --namespace=elsewhere")
}

// explainsRefusedPods lets the namespace refuse the pods of the nodes. Ready names the command that
// repairs it. The level restricted refuses what baseline refuses.
func (k *plainKubernetes) explainsRefusedPods() {
	k.t.Helper()
	k.run(`kubectl label namespace openstack-csi --overwrite \
    pod-security.kubernetes.io/enforce=baseline
kubectl delete pods --all --namespace=openstack-csi`)
	repair := regexp.MustCompile(`DaemonSet \S+ has too few pods: no more can be created: ` +
		`violates PodSecurity "baseline:latest": .*\. Run: (kubectl label [^;]*)`)
	var command string
	k.must(stopwatch.Poll(2*installed, func() { pause(k.t) }, func() error {
		driver, err := k.object()
		if err != nil {
			return err
		}
		now := v1helpers.FindOperatorCondition(driver.Status.Conditions, diagnosis.ConditionReady)
		found := repair.FindStringSubmatch(now.Message)
		if found == nil {
			return fmt.Errorf("Ready is %s: %s", now.Status, now.Message)
		}
		command = found[1]
		return nil
	}))
	// The next attempt of a DaemonSet may be minutes away.
	k.run(command + "\nkubectl delete daemonsets --all --namespace=openstack-csi")
	k.awaitAvailable()
}

// mustSay returns an error unless the operator has created an event with a reason.
func (k *plainKubernetes) mustSay(reason string) error {
	events, err := k.cluster.kube.CoreV1().Events(k.operator.Namespace).
		List(k.ctx(), metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err == nil && len(events.Items) == 0 {
		err = fmt.Errorf("namespace %s contains no event %s", k.operator.Namespace, reason)
	}
	return err
}

// servedBy returns an error unless the object names an installation and a cluster ID.
func (k *plainKubernetes) servedBy(namespace, clusterID string) error {
	found, err := k.unstructured()
	if err != nil {
		return err
	}
	status := found.Object["status"].(map[string]any)
	if status["namespace"] != namespace || status["clusterID"] != clusterID {
		return fmt.Errorf("the status names %v and %v, want %s and %s", status["namespace"],
			status["clusterID"], namespace, clusterID)
	}
	return nil
}

// mustNotWrite fails the test if the operator has written anything but its Lease and events, which
// are in its namespace, or if the API server has refused a request.
func (k *plainKubernetes) mustNotWrite() {
	k.t.Helper()
	user := "system:serviceaccount:" + k.operator.Namespace + ":" + k.operator.Name
	requests, err := k.cluster.requestsSince(0, sender{user, k.operator.Program})
	k.must(err)
	requests = slices.DeleteFunc(requests, func(r request) bool {
		own := r.Namespace == k.operator.Namespace && (r.Resource == "events" || r.Resource == "leases")
		return r.User != user || r.Code != 403 && (own || !r.isWrite())
	})
	assert.Check(k.t, is.Len(requests, 0))
}
