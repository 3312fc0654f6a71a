//go:build integration && long

package integration

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// byOthers matches objects that neither an operator nor a file of a release creates: those of
// Kubernetes, of the administrator, of the project of snapshots, and of leader election, whose
// library sets no labels.
const byOthers = `^(APIService|ComponentStatus|CSINode|Endpoints|Event|IPAddress|Lease|Node|` +
	`PersistentVolume|PersistentVolumeClaim|VolumeSnapshot) |` +
	`^(ConfigMap|ServiceAccount) (default|kube-[a-z-]+)/|` +
	`^Secret openstack-csi/openstack-credentials$|monitoring|` +
	`snapshot-controller|snapshot\.storage\.k8s\.io$|/(default|kube-root-ca\.crt)$|` +
	`^ClusterRole(Binding)? /openstack-csi-metrics$`

// bookkeeping returns the prefixes of all annotations of OpenShift that the operators write, with
// which they remember what they have written, and why they keep their names.
func bookkeeping() map[string]string {
	const fixed = "constants of library-go"
	return map[string]string{
		"operator.openshift.io/spec-hash":        fixed,
		"operator.openshift.io/dep-":             fixed,
		"storage.openshift.io/stable-generation": fixed,
		"operator.openshift.io/rollout-inputs":   "tools read them in each kind of cluster",
	}
}

// mustMarkObjects reads all objects of all resources. It fails the test if one that is new since
// before, and not of others, lacks the labels of this flavour, or if
// its group, name, labels or annotations are of OpenShift. No API group is of OpenShift.
func (k *plainKubernetes) mustMarkObjects(before []string) {
	k.t.Helper()
	others, unused := regexp.MustCompile(byOthers), bookkeeping()
	found := map[string]int{}
	for _, object := range k.allObjects() {
		name := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
		if slices.Contains(before, name) || others.MatchString(name) ||
			metav1.GetControllerOf(&object) != nil { // such as a Pod
			continue
		}
		annotations := object.GetAnnotations()
		maps.DeleteFunc(annotations, func(key, _ string) bool {
			for kept := range bookkeeping() {
				if strings.HasPrefix(key, kept) {
					delete(unused, kept)
					return true
				}
			}
			return key == corev1.LastAppliedConfigAnnotation
		})
		text, err := json.Marshal([]any{
			object.GetAPIVersion(), name, object.GetLabels(), annotations,
		})
		k.must(err)
		assert.Check(k.t, !strings.Contains(strings.ToLower(string(text)), "openshift"), "%s", text)
		labels := object.GetLabels()
		assert.Check(k.t, labels["app.kubernetes.io/part-of"] == "openstack-csi", "%s", text)
		found[labels["app.kubernetes.io/instance"]]++
	}
	assert.Check(k.t, is.Len(unused, 0), "annotations that nothing writes")
	assert.Check(k.t, found["openstack-manila"] > 20 && found["openstack-cinder"] > 20 &&
		found[""] <= 6, "objects by driver: %v", found) // the namespace, definitions and monitoring
}

// allObjects returns the objects of all resources that the cluster serves, none of OpenShift.
func (k *plainKubernetes) allObjects() (all []unstructured.Unstructured) {
	k.t.Helper()
	lists, err := k.cluster.kube.Discovery().ServerPreferredResources()
	k.must(err)
	for _, list := range lists {
		assert.Check(k.t, !strings.Contains(list.GroupVersion, "openshift"), "%s", list.GroupVersion)
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		k.must(err)
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			found, err := k.cluster.dynamic.Resource(version.WithResource(resource.Name)).
				List(k.ctx(), metav1.ListOptions{})
			k.must(err)
			all = append(all, found.Items...)
		}
	}
	return all
}
