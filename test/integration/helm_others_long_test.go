//go:build integration && long && helm

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// TestHelmLeavesOthersAlone installs the chart with everything that does not exist yet, upgrades
// and removes it beside the definitions of cert-manager, of Prometheus Operator, and of the
// CSI-Addons for Ceph. They stay as they are, and charts of others see the same cluster as before.
// Values that would need another's definition are refused before anything changes, as is a
// namespace that refuses privileged pods.
func TestHelmLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	h := &helmCluster{plainKubernetes: k}
	k.run("kubectl create -f " + filepath.Join(shared.Bin, "tools", "definitions"))
	k.run("kubectl wait crd --all --for=condition=Established --timeout=1m")
	k.run("kubectl create namespace openstack-csi")
	program := filepath.Join(k.programs(), "helm")
	for _, helm := range helms() {
		k.must(os.Symlink(helm, program))
		definitions, seen := k.definitionsOfOthers(), k.seenByOthers()
		k.run("kubectl label namespace openstack-csi pod-security.kubernetes.io/enforce=baseline")
		const install = `helm install openstack-csi "$CHART" --namespace=openstack-csi ` +
			"--set=manila.enabled=true,cinder.enabled=true,monitoring.enabled=true,clusterID=a"
		output := h.refuses(install)
		command := regexp.MustCompile("kubectl label namespace .*").FindString(output)
		assert.Assert(t, command != "", output)
		k.run(command)
		h.refusesPartsOfOthers(install)
		h.runs(install)
		k.run("kubectl delete crd cinderdrivers.csi.openstack.org")
		output = h.refuses(upgradeWith + "clusterID=b")
		assert.Check(t, is.Contains(output, "CustomResourceDefinition cinderdrivers.csi.openstack.org "+
			"is missing. First run: helm show crds CHART | kubectl apply"))
		h.runs(`helm show crds "$CHART" | kubectl apply --server-side --force-conflicts -f -`)
		snapshots := " -k " + filepath.Join(repository, "assets/snapshots") // ours, and not another's
		k.run("kubectl create" + snapshots)
		h.upgrade("snapshotController.enabled=true --take-ownership --dry-run=server")
		k.run("kubectl delete" + snapshots)
		h.upgrade("clusterID=b")
		assert.Check(t, is.DeepEqual(seen, k.seenByOthers()))
		h.runs("helm uninstall openstack-csi --namespace=openstack-csi")
		assert.Check(t, is.DeepEqual(definitions, k.definitionsOfOthers()))
		k.run("kubectl delete crd maniladrivers.csi.openstack.org cinderdrivers.csi.openstack.org")
		k.run("kubectl label namespace openstack-csi pod-security.kubernetes.io/enforce-")
		k.must(os.Remove(program))
	}
}

// refusesPartsOfOthers fails the test if the chart installs parts of which the cluster has another.
func (h *helmCluster) refusesPartsOfOthers(install string) {
	h.t.Helper()
	const controller = "deployment rke2-snapshot-controller --namespace=kube-system"
	const class = "volumesnapshotclasses.snapshot.storage.k8s.io"
	for _, one := range []struct{ create, delete, part, want string }{
		{"true", "true", "csiAddons", "CustomResourceDefinition csiaddons"},
		{
			"kubectl create " + controller + " --image=example.com/mirrored-snapshot-controller:v8",
			"kubectl delete " + controller, "snapshotController",
			"Deployment kube-system/rke2-snapshot-controller is a snapshot controller",
		},
		{
			"kubectl create -f " + filepath.Join(repository, "assets/snapshots/generated",
				"snapshot.storage.k8s.io_volumesnapshotclasses.yaml") +
				" && kubectl annotate crd " + class + " meta.helm.sh/release-name=others",
			"kubectl delete crd " + class, "snapshotController",
			"CustomResourceDefinition " + class + " is of another installation",
		},
	} {
		h.runs(one.create)
		output := h.refuses(install + "," + one.part + ".enabled=true --dry-run=server")
		assert.Check(h.t, strings.Contains(output, one.want) &&
			strings.Contains(output, ": leave "+one.part+".enabled"), output)
		h.runs(one.delete)
	}
}

// refuses returns the output of a command, which must fail.
func (h *helmCluster) refuses(command string) string {
	h.t.Helper()
	output, err := guide.Output(h.ctx(), withChart+command, h.variables()...)
	assert.Check(h.t, err != nil, "%s succeeds:\n%s", command, output)
	return output
}

// seenByOthers returns what charts of others conclude from the API.
func (k *plainKubernetes) seenByOthers() []string {
	k.t.Helper()
	output, err := guide.Output(k.ctx(), "helm install others testdata/others --dry-run=server",
		k.variables()...)
	k.must(err)
	seen := regexp.MustCompile(`(?m)^  (has|openshift) .*`).FindAllString(output, -1)
	assert.Check(k.t, len(seen) > 10, output)
	slices.Sort(seen)
	return seen
}

// definitions returns the CustomResourceDefinitions whose names end with a text, without what the
// API server changes.
func (k *plainKubernetes) definitions(suffix string) map[string]any {
	k.t.Helper()
	list, err := k.cluster.dynamic.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}).List(k.ctx(), metav1.ListOptions{})
	k.must(err)
	found := map[string]any{}
	for _, object := range list.Items {
		if strings.HasSuffix(object.GetName(), suffix) {
			unstructured.RemoveNestedField(object.Object, "status")
			object.SetResourceVersion("")
			found[object.GetName()] = object.Object
		}
	}
	return found
}

// definitionsOfOthers returns the definitions that are not ours.
func (k *plainKubernetes) definitionsOfOthers() map[string]any {
	k.t.Helper()
	all := k.definitions("")
	for name := range k.definitions(".csi.openstack.org") {
		delete(all, name)
	}
	return all
}
