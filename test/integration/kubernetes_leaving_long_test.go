//go:build integration && long

package integration

import (
	"os"
	"slices"
	"strings"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// objects returns all objects of the cluster, as `Kind namespace/name`, except those that each
// cluster contains.
func (k *plainKubernetes) objects() []string {
	k.t.Helper()
	output, err := guide.Output(k.ctx(), `kubectl get --all-namespaces --output=jsonpath=`+
		`'{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}' `+
		`"$(kubectl api-resources --verbs=list,delete --output=name |
			grep -vE '^(events|endpoint)' | paste -sd,)" |
			grep -vE '^(ConfigMap|Lease|ServiceAccount) (default|kube-[a-z-]+)/'`,
		"PATH="+shared.kubernetes+":"+os.Getenv("PATH"), "KUBECONFIG="+k.dir.AdminKubeconfig())
	k.must(err)
	found := strings.Split(strings.TrimSpace(output), "\n")
	slices.Sort(found)
	return slices.Compact(found)
}

// leaves removes one driver after the other by the commands of the guide, and what both use. No
// object of the first is left, and the second stays complete. In the end the cluster contains what
// it contained before, and what the user created.
func (k *plainKubernetes) leaves(before []string) {
	k.t.Helper()
	k.run("kubectl delete volumesnapshots,pvc --all --wait=false")
	all := k.objects()
	k.follow("Remove Manila")
	k.mustDiffer(all, k.objects(), "manila")
	k.follow("Remove Cinder")
	for _, object := range k.objects() {
		_, name, _ := strings.Cut(object, " openshift-cluster-csi-drivers/")
		assert.Check(k.t, name == "" || name == "default" || name == "kube-root-ca.crt",
			"after the removal of both drivers, %s is left", object)
	}
	k.follow("Remove what both drivers use")
	after := slices.DeleteFunc(k.objects(), func(object string) bool {
		return strings.Contains(object, " monitoring/") || object == "Namespace /monitoring"
	})
	assert.Check(k.t, is.DeepEqual(before, after),
		"objects before the installation and after the removal")
}

// mustDiffer checks that exactly the objects of a driver are gone. The names of those of the other
// driver do not contain its name.
func (k *plainKubernetes) mustDiffer(before, after []string, driver string) {
	k.t.Helper()
	of := func(object string) bool { return strings.Contains(object, driver) }
	for _, object := range before {
		gone := !slices.Contains(after, object)
		if gone != of(object) && !strings.HasPrefix(object, "IPAddress ") { // of a Service
			k.t.Errorf("after the removal of %s, %s is gone: %v", driver, object, gone)
		}
	}
}
